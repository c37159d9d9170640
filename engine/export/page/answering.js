// The translation, at once; the parts tell how it comes about

function answering(source) {
  const [{ ids }] = model.beam(source.read, 4).ended;
  const below = source.ids.map((id) => (id === UNK ? NEVER_SEEN : ""));
  const unknown = source.words.filter((_, place) => source.ids[place] === UNK);
  const draw = () => [
    heading(_("Translated")),
    wordList(source.words.slice(0, -1), below),
    make("p", { class: "large" }, translated(ids)),
    writtenList(ids.filter((id) => id !== EOS)),
    row(make("button", { class: "strong", onclick: () => go(words(source)) }, _("How did it do that?"))),
    line(make("span", { class: "soft" }, _("Written with a beam of 4, as the part Searching shows."))),
  ];
  const say = model.text(ids) + (unknown.length ? " " + _("Never seen: {}.", unknown.join(", ")) : "");
  return { scene: -1, source, say, draw, next: () => words(source) };
}

// The translation, at once, sentence by sentence; the parts tell how it comes about

function answering(typed, sentences) {
  const answers = sentences.map(({ text, added }) => {
    const source = understood(text);
    const [{ ids }] = model.beam(source.read, 4).ended;
    const whole = model.text(ids);
    return { source, ids, written: added ? whole.replace(/[.!?。！？]$/u, "") : whole };
  });
  const spaces = ["zh", "ja"].includes(model.codes[1]) ? "" : " ";
  const joined = answers.map(({ written }) => written).join(spaces);
  const unknown = answers.flatMap(({ source }) => source.words.filter((_, place) => source.ids[place] === UNK));
  const inside = ({ source, ids }) => [
    wordList(
      source.words.slice(0, -1),
      source.ids.map((id) => (id === UNK ? NEVER_SEEN : "")),
    ),
    writtenList(ids.filter((id) => id !== EOS)),
    row(make("button", { class: "strong", onclick: () => go(words(source)) }, _("How did it do that?"))),
  ];
  const draw = () => [
    heading(_("Translated")),
    make("p", { class: "large" }, foreign(joined || _("(nothing)"), "span", { class: "answer" })),
    ...answers.flatMap(inside),
    line(make("span", { class: "soft" }, _("Written with a beam of 4, as the part Searching shows."))),
    sentences.some(({ added }) => added)
      ? line(make("span", { class: "soft" }, _("An end mark was added for the model, and taken off again: it learned from whole sentences.")))
      : "",
  ];
  const say = joined + (unknown.length ? " " + _("Never seen: {}.", unknown.join(", ")) : "");
  const { source } = answers[0];
  return { scene: -1, source, say, draw, next: () => words(source), address: () => addressOf("translation", typed) };
}

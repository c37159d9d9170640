// 1 Words

function words(source) {
  const below = source.ids.map((id) => (id === UNK ? NEVER_SEEN : id));
  const unknown = source.words.filter((_, place) => source.ids[place] === UNK);
  const all = model.segment(source.sentence).length;
  const draw = () => [
    heading(_("The sentence becomes numbers")),
    wordList(source.words, below),
    line(
      _(
        "The model sees only the numbers: the places of these words in its list of {}.",
        model.source.length.toLocaleString("en"),
      ),
    ),
    unknown.length
      ? line(
          make("b", { class: "wrong" }, unknown.join(", ")),
          _(" was in no sentence that it learned from. It reads all such words as the same number, 1."),
        )
      : "",
    all >= source.ids.length
      ? line(make("b", { class: "wrong" }, _("It reads only the first {}.", model.max_length)))
      : "",
  ];
  const say =
    _("{} numbers.", source.ids.length) + (unknown.length ? " " + _("Never seen: {}.", unknown.join(", ")) : "");
  return { scene: 0, source, say, draw, next: () => reading(source) };
}

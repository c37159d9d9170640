// 5 Breaking

/** Xavier's random numbers, as lesson 11 draws them; every time the same ones. */
function untrained() {
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const fresh = (name, numbers) => {
    const [rows, columns] = model.shapes[name];
    const bound = columns && Math.sqrt(6 / (rows + columns));
    return numbers.map(() => (columns ? bound * (2 * random() - 1) : name.endsWith("bias") ? 0 : 1));
  };
  return Object.fromEntries(Object.entries(model.weights).map(([name, numbers]) => [name, fresh(name, numbers)]));
}

const BREAKS = [
  [_("as it was trained"), () => model],
  [_("no mask: each sign sees those behind it, too"), () => model.but({ mask: false })],
  [_("no positions: it does not know where a word stands"), () => model.but({ positions: false })],
  [
    _("the same, and the words turned round"),
    () => model.but({ positions: false }),
    (words) => [...words].reverse().join(" "),
  ],
  [_("random weights, as before training"), () => model.but({}, untrained())],
];

function breaking(source, count) {
  const tokens = source.words.slice(0, -1);
  const rows = BREAKS.slice(0, count).map(([name, engine, turn], number) => {
    const sentence = turn ? turn(tokens) : source.sentence;
    return { name, sentence, text: engine().translate(sentence), measured: model.breaks[number] };
  });
  const columns = [_("the model"), _("reads"), _("writes")];
  if (model.breaks.length) columns.push(_("on the test set"));
  const draw = () => [
    heading(_("What happens without a part")),
    make(
      "table",
      { class: "stacked" },
      make(
        "thead",
        {},
        make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name))),
      ),
      make(
        "tbody",
        {},
        ...rows.map(({ name, sentence, text, measured }) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, name),
            make("td", { lang: model.codes[0] }, sentence),
            make("td", { class: "foreign" }, foreign(text || _("(nothing)"), "span", { class: "answer" })),
            ...(measured ? [make("td", {}, _("{} of {} as in the corpus, BLEU {}", measured.exact, measured.sentences, measured.bleu.toFixed(1)))] : []),
          ),
        ),
      ),
    ),
    count === 2
      ? line(
          _(
            "Without its mask a trained decoder still writes. What the mask is for shows while it learns: all signs are there at once then (lesson 09).",
          ),
        )
      : "",
    model.breaks.length
      ? line(_("One sentence decides nothing: a broken model may happen to be right. The figures are of all test sentences."))
      : "",
    line(
      make(
        "span",
        { class: "soft" },
        count < BREAKS.length ? _("And {}? Guess, then go on.", BREAKS[count][0]) : _("Greedy search throughout."),
      ),
    ),
  ];
  const { name, text } = rows.at(-1);
  return {
    scene: 4,
    source,
    say: `${name}: ${text || _("nothing")}`,
    draw,
    next: () => (count < BREAKS.length ? breaking(source, count + 1) : transplanting(source)),
  };
}

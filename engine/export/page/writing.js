// 3 Writing

const likely = (state, read, count) => (state.ids.length < read.limit ? highest(state.logs, count) : [EOS]);
const shuffled = (ids) => [...ids].sort((one, other) => ((one * 7919) % 1009) - ((other * 7919) % 1009));

/** What is written so far, marked where the reader chose. */
const writtenSoFar = (ids, forks, newest = false) =>
  writtenList(
    ids,
    newest,
    forks.map(({ place }) => place),
  );

/** `forks`: the places where something else than the likeliest was taken, and what that was. */
function ask(source, state, forks = []) {
  const ids = shuffled(likely(state, source.read, CHOICES));
  const question = state.ids.length > 1 ? _("What comes next?") : _("What comes first?");
  const draw = () => [
    heading(question),
    wordList(
      source.words,
      source.words.map(() => ""),
    ),
    writtenSoFar(state.ids, forks),
    make(
      "div",
      { class: "cards" },
      ...ids.map((id, place) =>
        make(
          "button",
          { onclick: () => choose(place) },
          foreign(sign(id), "b"),
          make("small", {}, `${place + 1}  ${gloss(id)}`),
        ),
      ),
    ),
    line(
      make("span", { class: "soft" }, TOUCH ? _("Tap your guess, or go on without.") : _("Guess with the keys 1 to 5, or go on without.")),
      " ",
      make("button", { onclick: () => go(done(source, finish(source, state), forks)) }, _("Write the rest")),
    ),
  ];
  const choose = (place) => place < ids.length && go(reveal(source, state, forks, ids[place]));
  const say = `${question} ${ids.map((id, place) => `${place + 1}: ${sign(id)}, ${gloss(id)}`).join("; ")}`;
  return { scene: 2, source, say, draw, choose, next: () => reveal(source, state, forks) };
}

function reveal(source, state, forks, guess) {
  const ids = likely(state, source.read, CHOICES);
  const share = (id) => (ids.length > 1 ? Math.exp(state.logs[id]) : 1);
  const verdict =
    guess === undefined
      ? ""
      : guess === ids[0]
        ? _("You and the model agree. ")
        : _("You took {}: the model gives it {}. ", named(guess), percent(share(guess)));
  const draw = () => [
    heading(_("How sure is it?")),
    writtenSoFar(state.ids, forks),
    make(
      "div",
      { class: "bars answer" },
      ...ids.map((id, place) =>
        make(
          "button",
          { class: id === guess && "guess", onclick: () => choose(place) },
          foreign(sign(id), "b"),
          make("span", {}, `${place + 1}  ${gloss(id)}`),
          make("i", { style: `width: ${100 * share(id)}%` }),
          make("em", {}, percent(share(id))),
        ),
      ),
    ),
    line(
      make("span", { class: `answer ${guess === ids[0] ? "right" : "wrong"}` }, verdict),
      make(
        "span",
        { class: "soft" },
        TOUCH
          ? _("Next takes the likeliest. Tap another, and the sentence goes on with that.")
          : _("Next takes the likeliest. Click another, or press its number, and the sentence goes on with that."),
      ),
    ),
  ];
  const choose = (place) =>
    place < ids.length &&
    go(
      took(
        source,
        state,
        ids[place],
        place ? [...forks, { place: state.ids.length - 1, instead: [...state.ids, ids[0]] }] : forks,
      ),
    );
  const say = verdict + ids.map((id) => `${sign(id)}, ${gloss(id)}: ${percent(share(id))}`).join("; ");
  return { scene: 2, source, say, draw, choose, next: () => took(source, state, ids[0], forks) };
}

/** The shares of a sign's look at the source: of a layer and a head from 1, 0 being the mean. */
function shares(state, layer, head) {
  const layers = state.cross.map((rows) => rows.at(-1)).filter((_, place) => !layer || place === layer - 1);
  const rows = layers.flatMap((heads) => heads.filter((_, place) => !head || place === head - 1));
  return rows[0].map((_, key) => rows.reduce((sum, weights) => sum + weights[key], 0) / rows.length);
}

/** Buttons of which one is pressed. */
function pick(name, labels, chosen) {
  const buttons = labels.map((label, place) =>
    make(
      "button",
      {
        "aria-pressed": String(place === 0),
        "aria-label": `${name} ${label}`,
        onclick: () => {
          buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === place)));
          chosen(place);
        },
      },
      label,
    ),
  );
  return row(make("span", {}, name), ...buttons);
}

function took(source, before, id, forks) {
  const state = { ...before, ids: [...before.ids, id] };
  const next = () =>
    id === EOS ? done(source, state.ids, forks) : ask(source, model.write(source.read, [id], before), forks);
  const numbers = (count) => [_("mean"), ...Array.from({ length: count }, (_, place) => place + 1)];
  const draw = () => {
    const box = make("div"),
      chosen = [0, 0];
    const shade = () => {
      const weights = shares(before, ...chosen);
      box.replaceChildren(wordList(source.words, weights.map(percent), weights));
    };
    const picker = (name, place, count) => pick(name, numbers(count), (value) => ((chosen[place] = value), shade()));
    shade();
    return [
      heading(_("Where it looked to write {}", named(id))),
      writtenSoFar(state.ids, forks, true),
      box,
      picker(_("Layer"), 0, model.num_layers),
      picker(_("Head"), 1, model.num_heads),
      line(make("span", { class: "soft" }, _("A weight says where it looked, not why."))),
    ];
  };
  const weights = shares(before, 0, 0),
    most = weights.indexOf(Math.max(...weights));
  return {
    scene: 2,
    source,
    say: _("It writes {} and looks most at {}: {}.", named(id), source.words[most], percent(weights[most])),
    draw,
    next,
  };
}

/** These target ids, and behind them the likeliest each time. */
function finish(source, { ids }) {
  let state = model.write(source.read, ids);
  while (state.ids.at(-1) !== EOS) {
    const [id] = likely(state, source.read, 1);
    if (id === EOS) return [...state.ids, EOS];
    state = model.write(source.read, [id], state);
  }
  return state.ids;
}

/** How likely target ids are, by the sum of their logarithms. */
function total(source, ids) {
  let sum = 0,
    state = model.write(source.read, [BOS]);
  for (const id of ids.slice(1)) {
    sum += state.logs[id];
    state = model.write(source.read, [id], state);
  }
  return sum;
}

function done(source, ids, forks) {
  const others = forks.map(({ instead }) => (instead.at(-1) === EOS ? instead : finish(source, { ids: instead })));
  const lines = [[_("what was written"), ids], ...others.map((other) => [_("without your choice"), other])];
  const draw = () => [
    heading(forks.length ? _("One sentence, and where it forked") : _("It is written")),
    writtenSoFar(ids, forks),
    make(
      "table",
      { class: "stacked" },
      make(
        "tbody",
        {},
        ...lines.map(([name, ids]) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, name),
            make("td", { class: "foreign" }, translated(ids)),
            make("td", {}, _("probability {}", percent(Math.exp(total(source, ids))))),
          ),
        ),
      ),
    ),
    line(
      _(
        "The likeliest sign each time need not give the likeliest sentence. Who wants that must keep several sentences in sight: next.",
      ),
    ),
  ];
  return { scene: 2, source, say: _("It is written: {}", model.text(ids)), draw, next: () => searching(source, 1) };
}

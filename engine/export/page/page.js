// What a reader of the translating page sees and chooses. engine.js computes, attention_viewer.js
// draws the encoder's maps. A view is {scene, say, draw, next, choose}: what it says to who listens,
// its elements, the view behind it, and the view behind choosing one of several. Nothing in a view
// changes, so "Back" is the view before.

/** A text of the page's own in the reader's language, with values in the place of {}. */
function _(text, ...values) {
  const language = new URLSearchParams(location.search).get("lang");
  return (WORDS[language]?.[text] ?? text).replace(/\{\}/g, () => values.shift());
}

const NEVER_SEEN = _("never seen");
const NAMES = { English: _("English"), Chinese: _("Chinese") };
const CHOICES = 5;
const SCENES = [_("Words"), _("Reading"), _("Writing"), _("Searching"), _("Breaking"), _("Two models")];
const $ = (id) => document.getElementById(id);
const percent = (share) => (share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);
const number = (value) => value.toFixed(2).replace("-", "−");

/** An element with attributes, functions for its events, and what it holds. */
function make(tag, attributes = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node[name] = value;
    else if (value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...inside);
  return node;
}

// what is shown everywhere

const sign = (id) => (id === EOS ? "■" : model.target[id]);
/** What a model was trained on: [kind, numbers]. */
function told({ told: [kind, ...numbers] }) {
  if (kind === "pairs") return _("Trained for {} steps on {} pairs of sentences.", ...numbers);
  return _("Trained for {} steps of up to {} tokens.", ...numbers);
}

const gloss = (id) => (id === EOS ? _("the end") : model.glosses[id] || "");
const named = (id) => (gloss(id) ? `${sign(id)} (${gloss(id)})` : sign(id));
const foreign = (text, tag = "span", attributes = {}) => make(tag, { lang: model.codes[1], ...attributes }, text);
const translated = (ids, engine = model) => foreign(engine.text(ids) || _("(nothing)"), "span", { class: "answer" });

/** The sentence as the encoder has read it. */
function understood(sentence) {
  const ids = model.encode(sentence);
  const words = [...model.segment(sentence).slice(0, ids.length - 1), _("(end)")];
  return { sentence, ids, words, read: model.read(ids) };
}

/** The words of a sentence with something below each, shaded by `shares` if there are some. */
function wordList(words, below, shares = []) {
  const items = words.map((word, place) => {
    const unknown = below[place] === NEVER_SEEN;
    const style = shares.length ? `--shade: ${shares[place]}` : undefined;
    return make("li", { class: unknown && "unknown", style }, word, make("small", {}, below[place]));
  });
  return make("ol", { class: "words", lang: model.codes[0] }, ...items);
}

/** What is written so far, each sign with its gloss. */
function writtenList(ids, newest = false, forks = []) {
  const items = ids
    .filter((id) => id !== BOS)
    .map((id, place) => {
      const kind = [newest && place === ids.length - 2 && "newest", forks.includes(place) && "forked"];
      return make(
        "li",
        { class: kind.filter(Boolean).join(" ") },
        foreign(sign(id)),
        make("small", { lang: "en" }, gloss(id)),
      );
    });
  if (!items.length) items.push(make("li", { class: "soft" }, "…"));
  return make("ol", { class: "words written", "aria-label": _("written so far") }, ...items);
}

const heading = (text) => make("h2", {}, text);
const line = (...inside) => make("p", {}, ...inside);
const row = (...inside) => make("div", { class: "row" }, ...inside);

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

// 2 Reading

/** The two directions in which vectors differ most, and each vector's place along them. */
function twoDirections(vectors) {
  const mean = vectors.reduce(add).map((value) => value / vectors.length);
  const centred = vectors.map((vector) => vector.map((value, column) => value - mean[column]));
  const product = (x, y) => x.reduce((sum, value, column) => sum + value * y[column], 0);
  const gram = centred.map((x) => centred.map((y) => product(x, y)));
  return [0, 1].map(() => {
    let along = gram.map((_, place) => 1 + place ** 2);
    let length = 0;
    for (let round = 0; round < 200; round++) {
      const turned = gram.map((weights) => product(weights, along));
      length = Math.hypot(...turned);
      along = turned.map((value) => value / (length || 1));
    }
    gram.forEach((weights, i) => weights.forEach((_, j) => (weights[j] -= length * along[i] * along[j])));
    return along.map((value) => value * Math.sqrt(length));
  });
}

/** Unit vectors of "play", [layer][sentence], in sentences that say what is played. */
function playVectors(played) {
  const reads = Object.values(played).map((sentence) => {
    const place = model.segment(sentence).indexOf("play");
    return model.read(model.encode(sentence)).layers.map((rows) => rows[place]);
  });
  const unit = (vector) => vector.map((value) => value / Math.hypot(...vector));
  return reads[0].map((_, layer) => reads.map((layers) => unit(layers[layer])));
}

const SIDE = 290; // pixels of a picture of vectors, under a line of text
const AROUND = [
  [11, 7, "start"],
  [-11, 7, "end"],
  [0, -12, "middle"],
  [0, 26, "middle"],
];

/** A name beside each point, over no other point and no other name where that can be. */
function label(root, points, names) {
  const boxOf = ([x, y], name, [right, down, anchor]) => {
    const width = 11 * name.length,
      left = x + right - { start: 0, middle: width / 2, end: width }[anchor];
    return [left, y + down - 17, left + width, y + down + 4];
  };
  const apart = (one, other) => one[2] < other[0] || other[2] < one[0] || one[3] < other[1] || other[3] < one[1];
  const taken = points.map(([x, y]) => [x - 7, y - 7, x + 7, y + 7]);
  points.forEach((point, number) => {
    const free = (place) => {
      const box = boxOf(point, names[number], place);
      return box[0] > 4 && box[2] < SIDE - 4 && taken.every((other, whose) => whose === number || apart(box, other));
    };
    const place = AROUND.find(free) || AROUND[0];
    taken.push(boxOf(point, names[number], place));
    svg(root, "text", { x: point[0] + place[0], y: point[1] + place[1], "text-anchor": place[2] }, names[number]);
  });
}

/** The vectors of "play" before and behind each layer: one point, then apart. */
function parting(played) {
  const layers = playVectors(played),
    names = Object.keys(played);
  const places = layers.map(twoDirections),
    farthest = Math.max(...places.flat(2).map(Math.abs));
  const pictures = layers.map((vectors, layer) => {
    const cosines = vectors.flatMap((x, i) =>
      vectors.slice(i + 1).map((y) => x.reduce((sum, value, column) => sum + value * y[column], 0)),
    );
    const cosine = cosines.reduce((sum, value) => sum + value, 0) / cosines.length;
    const title = `${layer ? _("after layer {}", layer) : _("before the first layer")}: ${cosine.toFixed(2)}`;
    const root = document.createElementNS(SVG, "svg");
    const attributes = {
      viewBox: `0 0 ${SIDE} ${SIDE + 30}`,
      role: "img",
      "aria-label": _("Six vectors of play, mean cosine {}", title),
    };
    for (const [name, value] of Object.entries(attributes)) root.setAttribute(name, value);
    svg(root, "rect", { x: 1, y: 30, width: SIDE - 2, height: SIDE - 2, rx: 8, class: "frame" });
    svg(root, "text", { x: 0, y: 20 }, title);
    const [across, up] = places[layer],
      scale = (0.38 * SIDE) / farthest;
    const points = names.map((_, number) => [SIDE / 2 + scale * across[number], 30 + SIDE / 2 - scale * up[number]]);
    for (const [cx, cy] of points) svg(root, "circle", { cx, cy, r: 6 });
    if (cosine > 0.9999) label(root, points.slice(0, 1), [_("all six")]);
    else label(root, points, names);
    return root;
  });
  return make(
    "div",
    { class: "stages", tabindex: 0, role: "group", "aria-label": _("vectors, layer by layer") },
    ...pictures,
  );
}

/** The encoder's maps, drawn when they are asked for. */
function encoderMaps({ words, read }) {
  const weights = read.maps.map((rows) => rows[0].map((_, head) => rows.map((heads) => heads[head])));
  const maps = { encoder: { queries: words, keys: words, weights, colour: "#0072B2" } };
  const viewer = make("div");
  const folded = make("details", {}, make("summary", {}, _("Where each word looked while it was read")), viewer);
  folded.ontoggle = () =>
    folded.open &&
    !viewer.firstChild &&
    render({ model: loose({ maps, kind: "encoder", layer: 1, head: 0 }), el: viewer });
  return folded;
}

function reading(source) {
  const story = Object.keys(model.played).length > 0;
  const draw = () => [
    heading(_("The encoder reads all words at once")),
    line(
      _(
        "Each word becomes {} numbers, a vector. In {} layers it looks at all the others, and what it finds changes it.",
        model.d_model,
        model.num_layers,
      ),
    ),
    ...(story
      ? [
          line(
            _("The vector of "),
            make("i", {}, "play"),
            _(" in six sentences ("),
            make("i", {}, Object.values(model.played)[0]),
            _(" and so on), named after what is played. 1.00 means equal."),
          ),
          parting(model.played),
        ]
      : []),
    encoderMaps(source),
  ];
  return {
    scene: 1,
    source,
    say: _("The encoder has read the sentence."),
    draw,
    next: () => ask(source, model.write(source.read, [BOS])),
  };
}

// 3 Writing

const likely = (state, read, count) => (state.ids.length < read.limit ? highest(state.logs, count) : [EOS]);
const shuffled = (ids) => [...ids].sort((one, other) => ((one * 7919) % 1009) - ((other * 7919) % 1009));

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
    writtenList(
      state.ids,
      false,
      forks.map(({ place }) => place),
    ),
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
      make("span", { class: "soft" }, _("Guess with the keys 1 to 5, or go on without.")),
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
  const told =
    guess === undefined
      ? ""
      : guess === ids[0]
        ? _("You and the model agree. ")
        : _("You took {}: the model gives it {}. ", named(guess), percent(share(guess)));
  const draw = () => [
    heading(_("How sure is it?")),
    writtenList(
      state.ids,
      false,
      forks.map(({ place }) => place),
    ),
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
      make("span", { class: `answer ${guess === ids[0] ? "right" : "wrong"}` }, told),
      make(
        "span",
        { class: "soft" },
        _("Next takes the likeliest. Click another, or press its number, and the sentence goes on with that."),
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
  const say = told + ids.map((id) => `${sign(id)}, ${gloss(id)}: ${percent(share(id))}`).join("; ");
  return { scene: 2, source, say, draw, choose, next: () => took(source, state, ids[0], forks) };
}

/** The shares of a sign's look at the source: of a layer and a head from 1, 0 being the mean. */
function shares(state, layer, head) {
  const layers = state.cross.map((rows) => rows.at(-1)).filter((_, place) => !layer || place === layer - 1);
  const found = layers.flatMap((heads) => heads.filter((_, place) => !head || place === head - 1));
  return found[0].map((_, key) => found.reduce((sum, weights) => sum + weights[key], 0) / found.length);
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
      const found = shares(before, ...chosen);
      box.replaceChildren(wordList(source.words, found.map(percent), found));
    };
    const picker = (name, place, count) => pick(name, numbers(count), (value) => ((chosen[place] = value), shade()));
    shade();
    return [
      heading(_("Where it looked to write {}", named(id))),
      writtenList(
        state.ids,
        true,
        forks.map(({ place }) => place),
      ),
      box,
      picker(_("Layer"), 0, model.num_layers),
      picker(_("Head"), 1, model.num_heads),
      line(make("span", { class: "soft" }, _("A weight says where it looked, not why."))),
    ];
  };
  const found = shares(before, 0, 0),
    most = found.indexOf(Math.max(...found));
  return {
    scene: 2,
    source,
    say: _("It writes {} and looks most at {}: {}.", named(id), source.words[most], percent(found[most])),
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
    writtenList(
      ids,
      false,
      forks.map(({ place }) => place),
    ),
    make(
      "table",
      { class: "stacked" },
      make(
        "tbody",
        {},
        ...lines.map(([name, found]) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, name),
            make("td", { class: "foreign" }, translated(found)),
            make("td", {}, _("probability {}", percent(Math.exp(total(source, found))))),
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

// 4 Searching

/** The places [step, place in it] of a finished sentence's signs in the steps of a search. */
function pathOf({ step }, steps) {
  let at = steps.findIndex((found) => found.includes(step));
  const path = [[at, steps[at].indexOf(step)]];
  for (let { parent } = step; at > 0;) {
    at -= 1;
    const place = steps[at].findIndex((one) => one.place === parent);
    path.push([at, place]);
    parent = steps[at][place].parent;
  }
  return path;
}

/** All that a search has weighed, a column for each sign; the best sentence's line is thick. */
function tree(steps, best) {
  const across = 76,
    down = 40,
    radius = 17;
  const most = Math.max(...steps.map((found) => found.length));
  const size = { width: across * steps.length + 70, height: down * most + 30 };
  const root = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({
    ...size,
    viewBox: `0 0 ${size.width} ${size.height}`,
    role: "img",
    "aria-label": _("The tree of the search"),
  }))
    root.setAttribute(name, value);
  const x = (step) => 60 + across * step,
    y = (place) => 24 + down * place;
  const thick = new Set(pathOf(best, steps).map(String));
  const nodes = [];
  steps.forEach((found, step) =>
    found.forEach(({ parent, id, total, place }, rank) => {
      const from = step
        ? [x(step - 1), y(steps[step - 1].findIndex((one) => one.place === parent))]
        : [x(-1) + 60, y(0)];
      const kind = thick.has(String([step, rank])) ? "best" : place === undefined && id !== EOS ? "lost" : "";
      const group = svg(root, "g", { class: kind });
      svg(group, "line", { x1: from[0] + (step ? radius : 0), y1: from[1], x2: x(step) - radius, y2: y(rank) });
      nodes.push([group, step, rank, id, total]);
    }),
  );
  for (const [group, step, rank, id, total] of nodes) {
    svg(group, "circle", { cx: x(step), cy: y(rank), r: radius });
    svg(group, "text", { x: x(step), y: y(rank) + 8, "text-anchor": "middle", lang: model.codes[1] }, sign(id));
    svg(group, "title", {}, _("{}, log-probability so far {}", named(id), number(total)));
  }
  return root;
}

function searching(source, size) {
  const { ended, steps } = model.beam(source.read, size);
  const sizes = [1, 2, 4];
  const draw = () => {
    const drawn = make("div", { class: "tree tabbed chosen", tabindex: 0, role: "region", "aria-label": "tree" }),
      table = make("div", { class: "tabbed" });
    const shown = make("output", {}),
      slider = make("input", { type: "range", min: 0, max: 2, step: 0.1, value: model.alpha, id: "alpha" });
    const rank = () => {
      const alpha = Number(slider.value),
        scored = ended.map((one) => ({ ...one, score: one.total / model.penalty(one.ids.length, alpha) }));
      scored.sort((one, other) => other.score - one.score);
      shown.value = alpha.toFixed(1);
      drawn.replaceChildren(tree(steps, scored[0]));
      const cells = scored.map(({ ids, total, score }) =>
        make(
          "tr",
          {},
          make("td", { class: "foreign" }, translated(ids)),
          make("td", {}, number(total)),
          make("td", {}, ids.length),
          make("td", {}, number(score)),
        ),
      );
      const names = [_("finished"), _("log-prob."), _("length"), _("score")].map((name) =>
        make("th", { scope: "col" }, name),
      );
      table.replaceChildren(
        make("table", {}, make("thead", {}, make("tr", {}, ...names)), make("tbody", {}, ...cells)),
      );
    };
    slider.oninput = rank;
    rank();
    const tab = (place) => [drawn, table].forEach((box, other) => box.classList.toggle("chosen", other === place));
    const tabs = pick(_("Show"), [_("the tree"), _("what finished")], tab);
    tabs.classList.add("tabs");
    return [
      heading(size === 1 ? _("Greedy: one sentence in sight") : _("A beam of {}: {} sentences in sight", size, size)),
      row(
        ...sizes.map((one) =>
          make(
            "button",
            { "aria-pressed": String(one === size), onclick: () => go(searching(source, one)) },
            one === 1 ? _("greedy") : _("beam of {}", one),
          ),
        ),
        make("label", { for: "alpha" }, _("length penalty")),
        slider,
        shown,
      ),
      tabs,
      make("div", { class: "found" }, drawn, table),
      line(
        make(
          "span",
          { class: "soft" },
          _(
            "Pale signs lost and were dropped. The score divides the log-probability by a penalty that grows with the length: without it (0) short sentences win. The slider ranks anew what has finished.",
          ),
        ),
      ),
    ];
  };
  const following = sizes[sizes.indexOf(size) + 1];
  const name = size === 1 ? _("Greedy search") : _("beam of {}", size);
  return {
    scene: 3,
    source,
    say: `${name}: ${model.text(ended[0].ids)}`,
    draw,
    next: () => (following ? searching(source, following) : breaking(source, 1)),
  };
}

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
  const rows = BREAKS.slice(0, count).map(([name, engine, turn]) => {
    const sentence = turn ? turn(tokens) : source.sentence;
    return { name, sentence, text: engine().translate(sentence) };
  });
  const draw = () => [
    heading(_("What happens without a part")),
    make(
      "table",
      { class: "stacked" },
      make(
        "thead",
        {},
        make("tr", {}, ...[_("the model"), _("reads"), _("writes")].map((name) => make("th", { scope: "col" }, name))),
      ),
      make(
        "tbody",
        {},
        ...rows.map(({ name, sentence, text }) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, name),
            make("td", { lang: model.codes[0] }, sentence),
            make("td", { class: "foreign" }, foreign(text || _("(nothing)"), "span", { class: "answer" })),
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
    next: () => (count < BREAKS.length ? breaking(source, count + 1) : comparing(source)),
  };
}

// 6 Two models

let second = null; // the model that was dropped onto the page

async function take(file, source) {
  let other = null;
  try {
    other = new Model(JSON.parse((await file.text()).replace(/^const WEIGHTS = |;\s*$/g, "")));
  } catch {
    return say(
      _("{} is no weights.js of a translating page. Make one with: make translator RUN=runs/small", file.name),
      true,
    );
  }
  second = other;
  go(comparing(source));
}

function comparing(source) {
  const sentences = [...new Set([source.sentence, ...model.examples])];
  const draw = () => {
    const input = make("input", {
      type: "file",
      accept: ".js",
      onchange: () => input.files[0] && take(input.files[0], source),
    });
    const drop = make(
      "div",
      { class: "drop" },
      make("label", {}, _("A second model: the file weights.js of another page, dropped here or chosen "), input),
    );
    drop.ondragover = (event) => event.preventDefault();
    drop.ondrop = (event) => {
      event.preventDefault();
      if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0], source);
    };
    const body = make("tbody");
    const fill = (rest) => {
      if (!rest.length || !drop.isConnected) return;
      const texts = [model, second].map((engine) => engine.translate(rest[0]));
      const cells = texts.map((text, place) =>
        make(
          "td",
          { class: "foreign" },
          make(
            "span",
            { lang: [model, second][place].codes[1], class: `answer ${place && texts[0] !== text ? "other" : ""}` },
            text || _("(nothing)"),
          ),
        ),
      );
      body.append(make("tr", {}, make("td", { lang: model.codes[0] }, rest[0]), ...cells));
      setTimeout(fill, 0, rest.slice(1)); // so that the page answers meanwhile
    };
    if (second) setTimeout(fill, 0, sentences);
    const table = second
      ? [
          line(_("This page: {}", told(model))),
          line(_("The second: {}", told(second))),
          make(
            "table",
            { class: "stacked" },
            make(
              "thead",
              {},
              make(
                "tr",
                {},
                ...[_("sentence"), _("this page"), _("the second")].map((name) => make("th", { scope: "col" }, name)),
              ),
            ),
            body,
          ),
        ]
      : [];
    return [heading(_("Your model beside this one")), drop, ...table];
  };
  return {
    scene: 5,
    source,
    say: second ? _("Both models translate.") : _("Choose a second model."),
    draw,
    next: () => null,
  };
}

// how it is driven

const views = []; // the newest last

function say(text, alarm = false) {
  $("status").textContent = text;
  $("alarm").textContent = alarm ? text : "";
}

function show() {
  const view = views.at(-1),
    stage = $("stage");
  const inside = stage.contains(document.activeElement);
  stage.replaceChildren(...view.draw());
  scrollTo(0, 0);
  if (inside) stage.focus({ preventScroll: true }); // what had the focus is gone
  [...$("scenes").children].forEach((button, scene) =>
    scene === view.scene ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current"),
  );
  $("back").disabled = views.length < 2;
  $("next").disabled = view.scene === SCENES.length - 1;
  say(view.say);
}

function go(view) {
  if (!view) return;
  views.push(view);
  show();
}

function back() {
  if (views.length < 2) return;
  views.pop();
  show();
}

function begin(sentence) {
  if (!model.segment(sentence).length) return say(_("Type a sentence first."), true);
  $("sentence").value = sentence;
  views.length = 0;
  go(words(understood(sentence)));
}

function hide() {
  const hidden = document.body.classList.toggle("hiding");
  $("hide").setAttribute("aria-pressed", String(hidden));
}

const openings = [
  words,
  reading,
  (source) => ask(source, model.write(source.read, [BOS])),
  (source) => searching(source, 1),
  (source) => breaking(source, 1),
  comparing,
];

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input, select")) return;
  const view = views.at(-1);
  if (event.key === "ArrowRight" || event.key === "PageDown") go(view.next());
  else if (event.key === "ArrowLeft" || event.key === "PageUp") back();
  else if (event.key === "h" || event.key === "H") hide();
  else if (view.choose && event.key >= "1" && event.key <= String(CHOICES)) view.choose(Number(event.key) - 1);
  else return;
  event.preventDefault();
}

let model = null;

function start() {
  for (const node of document.querySelectorAll("[data-word]")) node.textContent = _(node.textContent);
  const chinese = new URLSearchParams(location.search).get("lang") === "zh";
  document.documentElement.lang = chinese ? "zh-CN" : "en";
  Object.assign($("other"), {
    href: chinese ? "?" : "?lang=zh",
    textContent: chinese ? "English" : "中文",
    lang: chinese ? "en" : "zh",
  });
  if (typeof WEIGHTS === "undefined") {
    $("stage").textContent = _("The file weights.js is not beside this page: copy the whole folder.");
    return;
  }
  model = new Model(WEIGHTS);
  document.documentElement.dataset.ready = "";
  const [source, target] = model.languages;
  $("language").textContent = _("{} to {}", NAMES[source] || source, NAMES[target] || target);
  $("told").textContent = `${told(model)} ${_("A weight says where, not why.")}`;
  $("scenes").append(
    ...SCENES.map((name, scene) => make("button", { onclick: () => go(openings[scene](views.at(-1).source)) }, name)),
  );
  $("examples").append(
    ...model.examples.map((sentence) =>
      make("button", { lang: model.codes[0], onclick: () => begin(sentence) }, sentence),
    ),
  );
  $("ask").onsubmit = (event) => {
    event.preventDefault();
    begin($("sentence").value);
    $("stage").focus();
  };
  $("next").onclick = () => go(views.at(-1).next());
  $("back").onclick = back;
  $("hide").onclick = hide;
  addEventListener("keydown", pressed);
  begin(model.examples[0]);
}

start();

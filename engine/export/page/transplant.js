// 7 Why: the vector of a word, put into another sentence

const THINGS = ["the piano", "football", "tennis", "chess", "the violin", "cards"];

/** Sentences to operate on: the course's own where the model knows the word. */
const asked = () => (Object.keys(model.played).length ? THINGS.map((thing) => `We play ${thing} after dinner.`) : model.examples);

/** Names of the stages at which `read` keeps vectors. */
function stageNames() {
  const layers = Array.from({ length: model.num_layers }, (_, layer) => layer + 1);
  return [
    _("as it comes in"),
    ...layers.flatMap((layer) => [_("after self-attention {}", layer), _("after feed-forward {}", layer)]),
    _("as the decoder reads it (memory)"),
  ];
}

/** Pairs to begin with: one that moves, one that resists, and the first turned round. */
function firstPairs(source, { giver, taker }) {
  const list = asked();
  const buttons = [[0, 1], [0, 3], [1, 0]].flatMap(([from, into]) => {
    if (!list[from] || !list[into]) return [];
    const known = Object.keys(model.played).length, name = (number) => (known ? THINGS[number] : list[number]);
    const pressed = String(list[from] === giver && list[into] === taker);
    const open = () => go(transplanting(source, { giver: list[from], taker: list[into] }));
    return [make("button", { "aria-pressed": pressed, onclick: open }, _("{} into {}", name(from), name(into)))];
  });
  return row(...buttons);
}

function transplanting(source, chosen = {}) {
  const names = stageNames(), list = asked();
  const state = { giver: list[0], taker: list[1] ?? list[0], stage: names.length - 1, ...chosen };
  const giver = understood(state.giver), taker = understood(state.taker);
  const within = (place, words) => (Number.isInteger(place) && words[place] ? place : verbPlace(words));
  state.from = within(state.from ?? -1, giver.words);
  state.into = within(state.into ?? -1, taker.words);
  state.stage = names[state.stage] ? state.stage : names.length - 1;
  const before = written(taker.read).ids;
  const address = () => addressOf("why", "transplant", state.giver, state.from, state.taker, state.into, state.stage);
  /** The ids that are written with the vector in its new place, and whether it is another one. */
  const operate = () => {
    const vector = giver.read.stages[state.stage][state.from], old = taker.read.stages[state.stage][state.into];
    const patch = { stage: state.stage, place: state.into, vector };
    return { ids: model.greedy(model.read(taker.ids, { patch })), other: vector.some((value, column) => value !== old[column]) };
  };
  const verdict = ({ ids, other }) => {
    if (!other) return _("The two vectors are equal here, so nothing can change.");
    return model.text(ids) === model.text(before) ? _("The translation stays as it was.") : _("Another translation.");
  };
  const draw = () => {
    const result = make("div"), shown = make("output", { for: "stage-slider" });
    const slider = make("input", { type: "range", id: "stage-slider", min: 0, max: names.length - 1, value: state.stage });
    const update = () => {
      const made = operate();
      shown.value = names[state.stage];
      slider.setAttribute("aria-valuetext", names[state.stage]);
      result.replaceChildren(
        line(make("span", { class: "soft" }, _("The second sentence with the vector from the first: "), make("span", { class: "answer" }, verdict(made)))),
        make("div", { class: "answer" }, writtenNow(before, made.ids)),
      );
      remember(address());
      say(`${names[state.stage]}: ${model.text(made.ids)}. ${verdict(made)}`);
    };
    slider.oninput = () => ((state.stage = Number(slider.value)), update());
    const field = (name, part) => sentenceField(name, state[part], list, (sentence) => transplanting(source, { ...state, from: undefined, into: undefined, [part]: sentence }));
    const picker = (name, part, { words }) => wordPicker(words, name, state[part], (place) => ((state[part] = place), update()));
    const parts = [
      heading(_("Transplant: a word's vector moves to another sentence")),
      ways(source, 0),
      firstPairs(source, state),
      field(_("The vector comes from"), "giver"),
      picker(_("word that gives"), "from", giver),
      field(_("It goes into"), "taker"),
      picker(_("word that takes"), "into", taker),
      line(make("span", { class: "soft" }, _("The second sentence, translated as it is:"))),
      writtenList(before.filter((id) => id !== EOS)),
      row(make("label", { for: "stage-slider" }, _("the vector is moved")), slider, shown),
      result,
    ];
    update();
    return parts;
  };
  return {
    scene: 5,
    source,
    address,
    draw,
    next: () => accounting(source),
  };
}

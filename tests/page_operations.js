// What test_translating_page asks of the page's engine, as the lessons ask it of theirs.

let model = null;
const open = (file) => Boolean((model = new Model(file)));
const write = (text, change) => model.text(model.greedy(model.read(model.encode(text), change)));
const place = (text, word) => model.segment(text).indexOf(word);

function transplanted(giver, taker, stage) {
  const vector = model.read(model.encode(giver)).stages[stage][place(giver, "play")];
  return write(taker, { patch: { stage, place: place(taker, "play"), vector } });
}

/** `closed` as in CLOSED of notebooks/support/story.py. */
function cutAt(text, object, closed) {
  const places = { play: place(text, "play"), object: place(text, object) };
  const has = (who, whom) => closed.some((pair) => pair[0] === who && pair[1] === whom);
  const who = (query) => (query === places.play ? "play" : query === places.object ? "" : "others");
  const masked = model.encode(text).map((_, query) => (has(who(query), "object") ? [places.object] : []));
  const hidden = Object.keys(places).flatMap((whom) => (has("decoder", whom) ? [places[whom]] : []));
  return write(text, { masked, hidden });
}

/** The account where the greedy translation writes `one`, and the difference of the two logits. */
function accountOf(text, one, other) {
  const read = model.read(model.encode(text)), ids = model.greedy(read);
  const [first, second] = [one, other].map((sign) => model.target.indexOf(sign));
  let state = model.write(read, [BOS]);
  for (const id of ids.slice(0, ids.indexOf(first))) state = model.write(read, [id], state);
  return { parts: ledger(model, read, state, first, second), difference: state.logits[first] - state.logits[second] };
}

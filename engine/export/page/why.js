// 7 Why: what a translation comes from, found by operating on it

/** The three ways to ask why, one of them open. */
function ways(source, open) {
  const all = [
    [_("Transplant"), () => transplanting(source)],
    [_("Ledger"), () => accounting(source)],
    [_("Cut"), () => cutting(source)],
  ];
  const buttons = all.map(([name, view], place) =>
    make("button", { "aria-pressed": String(place === open), onclick: () => go(view()) }, name),
  );
  return row(...buttons);
}

/** The words of a sentence as buttons, of which one is pressed. */
function wordPicker(words, name, chosen, choose) {
  const buttons = words.map((word, place) =>
    make(
      "button",
      {
        "aria-pressed": String(place === chosen),
        onclick: () => {
          buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === place)));
          choose(place);
        },
      },
      word,
    ),
  );
  const list = make("div", { class: "row picker", role: "group", "aria-label": name, lang: model.codes[0] }, ...buttons);
  return row(make("span", {}, name), list);
}

/** A field for a sentence with a list of some; a new sentence opens another view. */
function sentenceField(name, sentence, list, open) {
  const id = `field-${name.replace(/\W/g, "")}`;
  const options = make("datalist", { id: `${id}-list` }, ...list.map((value) => make("option", { value })));
  const input = make("input", { id, value: sentence, list: `${id}-list`, autocomplete: "off", spellcheck: "false", lang: model.codes[0] });
  input.onchange = () => (model.segment(input.value).length ? go(open(input.value)) : say(_("Type a sentence first."), true));
  return make("div", { class: "row field" }, make("label", { for: id }, name), input, options);
}

/** What is written now, what is new in it marked. */
function writtenNow(before, ids) {
  const signs = ids.filter((id) => id !== EOS);
  return writtenList(signs, false, signs.flatMap((id, place) => (before.includes(id) ? [] : [place])));
}

/** The place of a word in a sentence's words: of the first that is there. */
function placeOf(words, wanted, otherwise = 0) {
  const place = words.findIndex((word) => wanted.includes(word));
  return place < 0 ? Math.min(otherwise, words.length - 1) : place;
}

const verbPlace = (words) => placeOf(words, ["play", "plays", "played", "playing"], 1);

/** The greedy translation's ids, and a state of `write` for each of them; computed once for a `read`. */
function written(read) {
  if (read.written) return read.written;
  const states = [model.write(read, [BOS])], ids = [];
  for (let id = 0; id !== EOS; ids.push(id)) {
    if (ids.length) states.push(model.write(read, ids.slice(-1), states.at(-1)));
    [id] = likely(states.at(-1), read, 1);
  }
  return (read.written = { ids, states });
}

/** Whether a text has a word. */
const known = (text) => Boolean(text && model.segment(text).length);

/** The view that an address names: "transplant", "ledger" or "cut", and what is chosen there. */
function whyAt([way, ...rest]) {
  if (way === "transplant") {
    const [giver, from, taker, into, stage] = rest;
    if (known(giver) && known(taker)) return transplanting(understood(taker), { giver, from: Number(from), taker, into: Number(into), stage: Number(stage) });
    return transplanting(understood(model.examples[0]));
  }
  const source = understood(known(rest[0]) ? rest[0] : asked()[0]);
  const numbers = rest.slice(1).map(Number);
  if (way === "ledger") return accounting(source, ...numbers);
  return way === "cut" ? cutting(source, ...numbers) : transplanting(source);
}

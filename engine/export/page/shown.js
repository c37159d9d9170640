// What a reader of the translating page sees and chooses. engine.js computes, attention_viewer.js
// draws the encoder's maps. A view is {scene, say, draw, next, choose}: what it says to who listens,
// its elements, the view behind it, and the view behind choosing one of several. Nothing in a view
// changes, so "Back" is the view before. `address` is what stands behind # where it is more than the
// part and the sentence: who opens that address sees the view again.

/** A text of the page's own in the reader's language, with values in the place of {}. */
function _(text, ...values) {
  const language = new URLSearchParams(location.search).get("lang");
  return (WORDS[language]?.[text] ?? text).replace(/\{\}/g, () => values.shift());
}

const NEVER_SEEN = _("never seen");
const NAMES = { English: _("English"), Chinese: _("Chinese") };
const CHOICES = 5;
const TOUCH = matchMedia("(hover: none)").matches;
const SCENES = [_("Words"), _("Reading"), _("Writing"), _("Searching"), _("Breaking"), _("Why")];
const PARTS = ["words", "reading", "writing", "searching", "breaking", "why"]; // in addresses
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
function trainedOn({ trained_on: [kind, ...numbers] }) {
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

/** The part of an address behind #. */
const addressOf = (...parts) => parts.map(encodeURIComponent).join("/");
const remember = (address) => history.replaceState(null, "", `#${address}`);

const heading = (text) => make("h2", {}, text);
const line = (...inside) => make("p", {}, ...inside);
const row = (...inside) => make("div", { class: "row" }, ...inside);

// The attention viewer of notebooks 04 and 16, drawn in the browser with nothing from the network.
// `maps` is {kind: {queries: [words], keys: [words], weights: [layer][head][query][key], colour}}.
// `layer` and `head` count from 1; head 0 is the mean of all heads.

const SVG = "http://www.w3.org/2000/svg";
const ROW = 30, TOP = 40, WIDTH = 760; // pixels
const SIDES = {
  query: { text: 250, anchor: "end", line: 262, share: 20 },
  key: { text: 510, anchor: "start", line: 498, share: 740 },
};

// A copy of the course in another language has other texts between these quotes; the translating page has its own `_`.
const word = (text) => (typeof _ === "function" ? _(text) : text);
const titleOf = (side) => (side === "query" ? word("asks (query)") : word("is looked at (key)"));
const nameOf = (kind) => ({ encoder: word("encoder"), decoder: word("decoder"), cross: word("cross") })[kind] ?? kind;

function svg(parent, tag, attributes, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return parent.appendChild(node);
}

const other = (side) => (side === "query" ? "key" : "query");
const height = (number) => TOP + ROW * (number + 0.5);

/** The weights [query][key] of the kind, layer and head that are chosen. */
function chosenWeights(model) {
  const heads = model.get("maps")[model.get("kind")].weights[model.get("layer") - 1];
  if (model.get("head")) return heads[model.get("head") - 1];
  const mean = (query, key) => heads.reduce((sum, head) => sum + head[query][key], 0) / heads.length;
  return heads[0].map((row, query) => row.map((_, key) => mean(query, key)));
}

/** A labelled list of choices for the property `name` of the model. */
function chooser(model, name, title, options) {
  const label = document.createElement("label");
  label.style.marginRight = "24px";
  const select = label.appendChild(document.createElement("select"));
  label.prepend(`${title} `);
  select.style.font = "inherit";
  select.setAttribute("aria-label", title);
  for (const [value, text] of options) select.add(new Option(text, value, false, String(value) === String(model.get(name))));
  select.onchange = () => {
    model.set(name, name === "kind" ? select.value : Number(select.value));
    model.save_changes();
  };
  return label;
}

/** The choosers of kind, layer and head. */
function controls(model) {
  const maps = model.get("maps");
  const { weights } = maps[model.get("kind")];
  const numbers = (list) => list.map((_, index) => [index + 1, index + 1]);
  const line = document.createElement("div");
  line.append(
    chooser(model, "kind", word("kind"), Object.keys(maps).map((kind) => [kind, nameOf(kind)])),
    chooser(model, "layer", word("layer"), numbers(weights)),
    chooser(model, "head", word("head"), [[0, word("mean of all")], ...numbers(weights[0])]),
  );
  return line;
}

/**
 * Two columns of words with a line for each pair; pointing at a word shows its own lines and shares.
 * `kept.word` is the [side, number] that was clicked; it stays when layer or head change.
 */
function picture(model, kept) {
  const { queries, keys, colour } = model.get("maps")[model.get("kind")];
  const weights = chosenWeights(model);
  const total = TOP + ROW * Math.max(queries.length, keys.length) + 6;
  const root = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ width: WIDTH, height: total, viewBox: `0 0 ${WIDTH} ${total}` }))
    root.setAttribute(name, value);
  root.style.maxWidth = "100%";
  root.style.height = "auto";
  const strength = (weight) => Math.sqrt(weight); // so that small shares can be seen
  const lines = weights.map((row, query) =>
    row.map((_, key) =>
      svg(root, "line", {
        x1: SIDES.query.line, y1: height(query), x2: SIDES.key.line, y2: height(key), stroke: colour, "stroke-width": 4,
      }),
    ),
  );

  const words = { query: [], key: [] };
  const show = (side, number) => {
    const share = (query, key) => (side === "query" ? query === number : side === "key" ? key === number : true);
    lines.forEach((row, query) =>
      row.forEach((line, key) => line.setAttribute("stroke-opacity", share(query, key) ? strength(weights[query][key]) : 0)),
    );
    for (const [where, list] of Object.entries(words))
      list.forEach(({ box, percent }, index) => {
        const weight = side === "query" ? weights[number][index] : side === "key" ? weights[index][number] : 0;
        const answers = side && where === other(side);
        box.setAttribute("fill-opacity", answers ? strength(weight) : 0);
        box.setAttribute("stroke-opacity", where === side && index === number ? 1 : 0);
        percent.textContent = answers ? `${Math.round(100 * weight)} %` : "";
      });
  };

  for (const [side, names] of [["query", queries], ["key", keys]]) {
    const { text, anchor, share } = SIDES[side];
    const title = titleOf(side);
    const font = { "text-anchor": anchor, fill: "currentColor" };
    svg(root, "text", { ...font, x: text, y: 18, "font-style": "italic" }, title);
    names.forEach((name, number) => {
      const named = { "aria-label": `${name}, ${title}`, "aria-pressed": String(String([side, number]) === String(kept.word)) };
      const group = svg(root, "g", { tabindex: 0, role: "button", "data-side": side, "data-number": number, ...named });
      Object.assign(group.style, { cursor: "pointer", outline: "none" });
      const left = side === "query" ? 70 : SIDES.key.line;
      const frame = { x: left, y: height(number) - ROW / 2 + 1, width: 192, height: ROW - 2, rx: 4 };
      const box = svg(group, "rect", { ...frame, fill: colour, stroke: colour, "stroke-width": 2 });
      svg(group, "text", { ...font, x: text, y: height(number) + 6 }, name);
      const end = { x: share, "text-anchor": side === "query" ? "start" : "end" };
      const percent = svg(group, "text", { ...font, ...end, y: height(number) + 6, class: "share" });
      words[side].push({ box, percent });
      const rest = () => show(...(kept.word || []));
      Object.assign(group, {
        onmouseenter: () => show(side, number),
        onfocus: () => show(side, number),
        onmouseleave: rest,
        onblur: rest,
        onclick: () => {
          kept.word = group.getAttribute("aria-pressed") === "true" ? null : [side, number];
          for (const each of root.querySelectorAll("g")) each.setAttribute("aria-pressed", String(each === group && kept.word !== null));
          show(side, number);
        },
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return; // Tab goes on to the next word
          event.preventDefault();
          event.stopPropagation(); // they mean something to JupyterLab, too
          group.onclick();
        },
      });
    });
  }
  show(...(kept.word || []));
  return root;
}

function render({ model, el }) {
  const kept = { word: null };
  const draw = () => {
    const box = document.createElement("div");
    box.className = "attention-viewer";
    Object.assign(box.style, { fontSize: "16px", overflowX: "auto" });
    const hint = document.createElement("div");
    hint.style.opacity = 0.75;
    hint.textContent = matchMedia("(hover: none)").matches
      ? word("Tap a word on the left: how much it looks at each word on the right. Or on the right: how much each word looks at it.")
      : word("Point at a word on the left: how much it looks at each word on the right. Or on the right: how much each word looks at it. A click keeps it.");
    box.append(controls(model), picture(model, kept), hint);
    const focused = el.querySelector("select:focus")?.getAttribute("aria-label");
    el.replaceChildren(box);
    if (focused) el.querySelector(`select[aria-label="${focused}"]`).focus(); // the list is a new one
  };
  const forget = () => {
    kept.word = null; // the words are others
    draw();
  };
  draw();
  for (const name of ["layer", "head"]) model.on(`change:${name}`, draw);
  for (const name of ["maps", "kind"]) model.on(`change:${name}`, forget);
}

/** What stands for the widget's model where no kernel runs. */
function loose(values) {
  const calls = [];
  return {
    get: (name) => values[name],
    set: (name, value) => {
      values[name] = value;
      for (const [event, call] of calls) if (event === `change:${name}`) call();
    },
    on: (event, call) => calls.push([event, call]),
    save_changes: () => {},
  };
}

export default { render };

// 7 Why: attention between words is masked, and the translation follows

const OBJECTS = ["piano", "football", "tennis", "chess", "violin", "cards", "dog", "guitar", "garden"];

/** The arrows of the drawing: where they go, and what each masks when it is cut. */
function arrows(words, verb, object) {
  const others = words.map((_, place) => place).filter((place) => place !== verb && place !== object);
  return [
    { name: _("the other words read {}", words[object]), line: [110, 230, 240, 40], masks: others.map((query) => [query, object]) },
    { name: _("{} reads {}", words[verb], words[object]), line: [110, 230, 240, 135], masks: [[verb, object]] },
    { name: _("the decoder reads {}", words[verb]), line: [340, 135, 455, 135], hides: verb },
    { name: _("the decoder reads {}", words[object]), line: [340, 230, 455, 155], hides: object },
  ];
}

/** What `read` shall mask for these arrows. */
function changeOf(cut, length) {
  const masked = Array.from({ length }, () => []);
  for (const [query, key] of cut.flatMap(({ masks = [] }) => masks)) masked[query].push(key);
  return { masked, hidden: cut.flatMap(({ hides }) => (hides === undefined ? [] : [hides])) };
}

/** Source words, memory and decoder with the arrows between them; `toggle` is told which was touched. */
function drawing(words, verb, object, all, bits, toggle) {
  const root = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 560 270", role: "group", "aria-label": _("source, encoder output and decoder") })) root.setAttribute(name, value);
  const node = (x, y, text, width = 100) => {
    svg(root, "rect", { x: x - width / 2, y: y - 20, width, height: 40, rx: 8, class: "node" });
    svg(root, "text", { x, y: y + 6, "text-anchor": "middle" }, text.length > 9 ? `${text.slice(0, 8)}…` : text);
  };
  const fixed = [[110, 40, 240, 40], [110, 135, 240, 135], [110, 230, 240, 230], [340, 40, 455, 115]];
  for (const [x1, y1, x2, y2] of fixed) svg(root, "line", { x1, y1, x2, y2, class: "fixed" });
  all.forEach(({ name, line: [x1, y1, x2, y2] }, number) => {
    const group = svg(root, "g", { role: "button", tabindex: 0, "aria-pressed": String(Boolean(bits[number])), "aria-label": _("cut: {}", name), class: bits[number] ? "cut" : "open" });
    svg(group, "line", { x1, y1, x2, y2, class: "hit" });
    svg(group, "line", { x1, y1, x2, y2 });
    svg(group, "text", { x: (x1 + x2) / 2, y: (y1 + y2) / 2 + 8, "text-anchor": "middle" }, bits[number] ? "✕" : "");
    group.onclick = () => toggle(number);
    group.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      toggle(number);
    };
  });
  for (const x of [60, 290]) [_("others"), words[verb], words[object]].forEach((text, place) => node(x, 40 + 95 * place, text));
  node(507, 135, _("decoder"), 104);
  [[60, _("source")], [290, _("memory (encoder output)")]].forEach(([x, text]) => svg(root, "text", { x, y: 14, "text-anchor": "middle", class: "soft" }, text));
  return make("div", { class: "drawing" }, root);
}

/** What is made when it is opened for the first time. */
function folded(title, fill) {
  const details = make("details", {}, make("summary", {}, title));
  details.addEventListener("toggle", () => details.append(fill()), { once: true });
  return details;
}

function cutting(source, verb = -1, object = -1, code = 0) {
  const { words } = source, inside = (place) => Number.isInteger(place) && place >= 0 && place < words.length;
  const one = inside(verb) ? verb : verbPlace(words), chosen = inside(object) ? object : placeOf(words, OBJECTS, 2);
  const two = chosen === one ? (one ? one - 1 : 1) : chosen;
  const all = arrows(words, one, two), bits = all.map((_, number) => (code >> number) & 1);
  const change = changeOf(all.filter((_, number) => bits[number]), words.length);
  const read = model.read(source.ids, change);
  const before = written(source.read), after = written(read);
  const reopen = (a, b, to) => cutting(source, a, b, to);
  /** The step at which both part, else the ledger's first; and the two tokens that are weighed. */
  const parting = after.ids.findIndex((id, step) => id !== before.ids[step]);
  const step = parting < 0 ? firstStep(after) : parting;
  const state = after.states[step];
  const pair = parting < 0 ? highest(state.logs, 2) : [after.ids[step], before.ids[step]];
  const cuts = all.filter((_, number) => bits[number]).map(({ name }) => name);
  const result = cuts.length ? _("With that cut it writes {}", model.text(after.ids)) : _("Nothing is cut.");
  const draw = () => [
    heading(_("Cut: which way does it come?")),
    ways(source, 2),
    wordPicker(words, _("first word"), one, (place) => go(reopen(place, two, code), true)),
    wordPicker(words, _("second word"), two, (place) => go(reopen(one, place, code), true)),
    line(make("span", { class: "soft" }, _("Touch an arrow of attention to mask it. A cross marks what is cut."))),
    drawing(words, one, two, all, bits, (number) => {
      go(reopen(one, two, code ^ (1 << number)), true);
      document.querySelectorAll(".drawing g")[number].focus({ preventScroll: true });
    }),
    make("div", { class: "answer" }, writtenNow(before.ids, after.ids)),
    line(make("span", { class: "soft" }, cuts.length ? _("without the cut: ") : result), cuts.length ? translated(before.ids) : ""),
    model.norm_place === "pre" ? folded(_("The ledger of {} and {}", named(pair[0]), named(pair[1])), () => accountBars(words, read, state, ...pair)) : "",
  ];
  return {
    scene: 5,
    source,
    address: () => addressOf("why", "cut", source.sentence, one, two, code),
    say: result,
    draw,
    next: () => null,
    last: true,
  };
}

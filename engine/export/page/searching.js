// 4 Searching

/** The places [step, place in it] of a finished sentence's signs in the steps of a search. */
function pathOf({ step }, steps) {
  let at = steps.findIndex((candidates) => candidates.includes(step));
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
  const most = Math.max(...steps.map((candidates) => candidates.length));
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
  steps.forEach((candidates, step) =>
    candidates.forEach(({ parent, id, total, place }, rank) => {
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
      slider = make("input", { type: "range", min: 0, max: Math.max(2, model.alpha), step: 0.05, value: model.alpha, id: "alpha" });
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

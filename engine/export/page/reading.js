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
    const { stages } = model.read(model.encode(sentence));
    return stages.filter((_, stage) => stage % 2 === 0).map((rows) => rows[place]); // behind whole layers
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

/** The encoder's maps of the sentence, which can be folded. */
function encoderMaps({ words, read }) {
  const weights = read.maps.map((rows) => rows[0].map((_, head) => rows.map((heads) => heads[head])));
  const maps = { encoder: { queries: words, keys: words, weights, colour: "#0072B2" } };
  const viewer = make("div");
  render({ model: loose({ maps, kind: "encoder", layer: 1, head: 0 }), el: viewer });
  return make("details", { open: "" }, make("summary", {}, _("Where each word looked while it was read")), viewer);
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
    encoderMaps(source),
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
  ];
  return {
    scene: 1,
    source,
    say: _("The encoder has read the sentence."),
    draw,
    next: () => ask(source, model.write(source.read, [BOS])),
  };
}

// how it is driven

const views = []; // the newest last

function say(text, alarm = false) {
  $("status").textContent = text;
  $("alarm").textContent = alarm ? text : "";
}

/** Shows the newest view, from its top or from where the reader is. */
function show(stay = false) {
  const view = views.at(-1),
    stage = $("stage");
  const inside = stage.contains(document.activeElement);
  stage.replaceChildren(...view.draw());
  if (!stay) scrollTo(0, 0);
  if (inside) stage.focus({ preventScroll: true }); // what had the focus is gone
  [...$("scenes").children].forEach((button, scene) =>
    scene === view.scene ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current"),
  );
  const lit = $("scenes").children[view.scene];
  if (lit) $("scenes").scrollLeft = lit.offsetLeft - ($("scenes").clientWidth - lit.offsetWidth) / 2; // on a phone
  $("back").disabled = views.length < 2;
  $("next").disabled = Boolean(view.last);
  if (view.say) say(view.say);
  if (model.isCut(view.source.sentence)) say(_("Only the first {} tokens are read.", model.max_length), true);
  remember(view.address ? view.address() : addressOf(PARTS[view.scene] ?? "translation", view.source.sentence));
}

function go(view, stay = false) {
  if (!view) return;
  views.push(view);
  show(stay);
}

/** Does what may take a while, once the browser has drawn that it is being done. */
function working(work) {
  document.body.classList.add("working");
  requestAnimationFrame(() =>
    setTimeout(() => {
      try {
        work();
      } finally {
        document.body.classList.remove("working");
      }
    }),
  );
}

function back() {
  if (views.length < 2) return;
  views.pop();
  show();
}

function begin(typed) {
  const sentences = sentencesOf(typed, model.codes[0]).filter(({ text }) => model.segment(text).length);
  if (!sentences.length) return say(_("Type a sentence first."), true);
  $("sentence").value = typed;
  views.length = 0;
  go(answering(typed, sentences));
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
  transplanting,
];

/** Begins with the view that the page's address names, else with the first example. */
function beginAtAddress() {
  let parts = [];
  try {
    parts = location.hash.slice(1).split("/").map(decodeURIComponent);
  } catch {} // no address of this page
  const [part, ...rest] = parts, scene = PARTS.indexOf(part);
  if (part === "why") {
    const view = whyAt(rest);
    begin(view.source.sentence);
    return go(view);
  }
  begin(rest[0] && model.segment(rest[0]).length ? rest[0] : model.examples[0]);
  if (scene >= 0) go(openings[scene](views.at(-1).source));
}

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input, select")) return;
  const view = views.at(-1);
  if (event.key === "ArrowRight" || event.key === "PageDown") working(() => go(views.at(-1).next()));
  else if (event.key === "ArrowLeft" || event.key === "PageUp") back();
  else if (event.key === "h" || event.key === "H") hide();
  else if (view.choose && event.key >= "1" && event.key <= String(CHOICES)) view.choose(Number(event.key) - 1);
  else return;
  event.preventDefault();
}

let model = null;

/** A model that has translated one of its examples. Throws for weights that are not whole. */
function tried(weights) {
  const whole = new Model(weights);
  if (!whole.segment(whole.examples[0]).length) throw new Error("no example");
  whole.translate(whole.examples[0]);
  return whole;
}

function start() {
  for (const node of document.querySelectorAll("[data-word]")) node.textContent = _(node.textContent);
  const chinese = new URLSearchParams(location.search).get("lang") === "zh";
  document.body.classList.toggle("embedded", self !== top); // in a lesson of the site: the part alone
  document.documentElement.lang = chinese ? "zh-CN" : "en";
  Object.assign($("other"), {
    href: chinese ? "?" : "?lang=zh",
    textContent: chinese ? "English" : "中文",
    lang: chinese ? "en" : "zh",
    onclick: () => ($("other").hash = location.hash), // the same part, of the same sentence
  });
  if (typeof WEIGHTS === "undefined") {
    $("stage").textContent = _("The file weights.js is not beside this page: copy the whole folder.");
    return;
  }
  try {
    model = tried(WEIGHTS);
  } catch {
    $("stage").textContent = _("The file weights.js is damaged, or another version's: write the page again.");
    return;
  }
  document.documentElement.dataset.ready = "";
  const [source, target] = model.languages;
  $("language").textContent = _("{} to {}", NAMES[source] || source, NAMES[target] || target);
  $("trained-on").textContent = `${trainedOn(model)} ${_("A weight says where, not why.")}`;
  $("scenes").append(
    ...SCENES.map((name, scene) =>
      make("button", { onclick: () => working(() => go(openings[scene](views.at(-1).source))) }, name),
    ),
  );
  $("examples").append(
    ...model.examples.map((sentence) =>
      make("button", { lang: model.codes[0], onclick: () => working(() => begin(sentence)) }, sentence),
    ),
  );
  $("ask").onsubmit = (event) => {
    event.preventDefault();
    working(() => {
      begin($("sentence").value);
      $("stage").focus();
    });
  };
  $("next").onclick = () => working(() => go(views.at(-1).next()));
  $("back").onclick = back;
  $("hide").onclick = hide;
  addEventListener("keydown", pressed);
  addEventListener("hashchange", beginAtAddress);
  beginAtAddress();
}

start();

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
  go(answering(understood(sentence)));
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
  $("trained-on").textContent = `${trainedOn(model)} ${_("A weight says where, not why.")}`;
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

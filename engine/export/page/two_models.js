// 6 Two models

let second = null; // the model that was dropped onto the page

async function take(file, source) {
  let other = null;
  try {
    other = tried(JSON.parse((await file.text()).replace(/^const WEIGHTS = |;\s*$/g, "")));
    if (Object.keys(model).some((setting) => !(setting in other))) throw new Error("an older version's");
  } catch {
    return say(
      _("{} is no weights.js of a translating page. Make one with: make translator RUN=runs/small", file.name),
      true,
    );
  }
  if (String(other.codes) !== String(model.codes))
    return say(_("{} translates other languages than this page.", file.name), true);
  second = other;
  go(comparing(source));
}

function comparing(source) {
  const sentences = [...new Set([source.sentence, ...model.examples])];
  const draw = () => {
    const input = make("input", {
      type: "file",
      accept: ".js",
      onchange: () => input.files[0] && take(input.files[0], source),
    });
    const drop = make(
      "div",
      { class: "drop" },
      make("label", {}, _("A second model: the file weights.js of another page, dropped here or chosen "), input),
    );
    drop.ondragover = (event) => event.preventDefault();
    drop.ondrop = (event) => {
      event.preventDefault();
      if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0], source);
    };
    const body = make("tbody");
    const fill = (rest) => {
      if (!rest.length || !drop.isConnected) return;
      const texts = [model, second].map((engine) => engine.translate(rest[0]));
      const cells = texts.map((text, place) =>
        make(
          "td",
          { class: "foreign" },
          make(
            "span",
            { lang: [model, second][place].codes[1], class: `answer ${place && texts[0] !== text ? "other" : ""}` },
            text || _("(nothing)"),
          ),
        ),
      );
      body.append(make("tr", {}, make("td", { lang: model.codes[0] }, rest[0]), ...cells));
      setTimeout(fill, 0, rest.slice(1)); // so that the page answers meanwhile
    };
    if (second) setTimeout(fill, 0, sentences);
    const table = second
      ? [
          line(_("This page: {}", trainedOn(model))),
          line(_("The second: {}", trainedOn(second))),
          make(
            "table",
            { class: "stacked" },
            make(
              "thead",
              {},
              make(
                "tr",
                {},
                ...[_("sentence"), _("this page"), _("the second")].map((name) => make("th", { scope: "col" }, name)),
              ),
            ),
            body,
          ),
        ]
      : [];
    return [heading(_("Your model beside this one")), drop, ...table];
  };
  return {
    scene: 5,
    source,
    say: second ? _("Both models translate.") : _("Choose a second model."),
    draw,
    next: () => transplanting(source),
  };
}

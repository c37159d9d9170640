const make = (tag, properties) => Object.assign(document.createElement(tag), properties);

// The search field. It needs no server: the index is a script, which the first focus loads.
// All words must stand in a section or its name.
const field = document.getElementById("search"), found = document.getElementById("found"), told = document.getElementById("told");
const plain = (text) => text.normalize("NFKC").toLowerCase();

function search() {
  const words = plain(field.value).match(/\S+/g);
  found.replaceChildren();
  told.textContent = "";
  if (!words || !window.searchIndex) return;
  const hits = searchIndex.filter(([, name, text]) => words.every((word) => plain(`${name} ${text}`).includes(word)));
  const inName = ([, name]) => words.filter((word) => plain(name).includes(word)).length;
  hits.sort((one, other) => inName(other) - inName(one)); // titles with these words come first
  told.textContent = `${hits.length} ${told.dataset.found}`;
  for (const [href, name, text] of hits) {
    const item = found.appendChild(make("li"));
    item.append(make("a", { href, textContent: name }));
    if (text) item.append(make("small", { textContent: text.replace(/^(.{100}).+/, "$1…") }));
  }
}

field.addEventListener("focus", () => document.head.append(make("script", { src: "search.js", onload: search })), { once: true });
field.oninput = search;
field.form.onsubmit = (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
};
field.form.onreset = () => setTimeout(search);
document.onclick = (event) => event.target === field || field.form.reset();
field.form.hidden = false;

// light or dark, as the reader chose, else as the system has it
const button = document.getElementById("theme"), look = document.documentElement.dataset;
let kept = {}; // where nothing may be stored
try { kept = localStorage; } catch {}
if (kept.theme) look.theme = kept.theme;
button.onclick = () => {
  const dark = look.theme ? look.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  look.theme = kept.theme = dark ? "light" : "dark";
};
button.hidden = false;

// the section that is being read is lit in the contents
const links = [...document.querySelectorAll(".contents a[href^='#']")];
const headings = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
document.onscroll = () => {
  const read = headings.findLastIndex((heading) => heading.getBoundingClientRect().top < innerHeight / 3);
  links.forEach((link, number) => (link.ariaCurrent = number === read ? "true" : null));
};

// a figure that holds maps of attention gets the viewer, of viewer.js, in place of its picture
for (const data of document.querySelectorAll("figure > script")) {
  const el = make("div", { className: "viewer" });
  render({ model: loose(JSON.parse(data.textContent)), el });
  data.parentElement.querySelector(".picture").replaceWith(el);
}

// the same section in the other language
const translation = document.querySelector("a.other");
translation.onclick = () => (translation.hash = location.hash);

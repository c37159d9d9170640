// The search field. It needs no server: the index is a script, which the first focus loads.
// All words must stand in a section or its name.
const field = document.getElementById("search");
const found = document.getElementById("found");
const told = document.getElementById("told");
const plain = (text) => text.normalize("NFKC").toLowerCase();

function search() {
  const words = plain(field.value).match(/\S+/g);
  found.replaceChildren();
  told.textContent = "";
  if (!words || !window.searchIndex) return;
  const { pages, sections } = searchIndex;
  const nameOf = ([page, , title]) => pages[page][1] + (title && ` › ${title}`);
  const inName = (section) => words.filter((word) => plain(nameOf(section)).includes(word)).length;
  const hits = sections.filter((section) => {
    const text = plain(`${nameOf(section)} ${section[3]}`);
    return words.every((word) => text.includes(word));
  });
  hits.sort((one, other) => inName(other) - inName(one)); // titles with these words come first
  told.textContent = `${hits.length} ${told.dataset.found}`;
  for (const section of hits) {
    const link = found.appendChild(document.createElement("li")).appendChild(document.createElement("a"));
    link.href = `${pages[section[0]][0]}#${section[1]}`;
    link.textContent = nameOf(section);
    const begin = section[3].replace(/^(.{100}).+/, "$1…");
    if (begin) link.after(Object.assign(document.createElement("small"), { textContent: begin }));
  }
}

field.onfocus = () => {
  const script = document.createElement("script");
  Object.assign(script, { src: "search.js", onload: search });
  document.head.append(script);
  field.onfocus = null;
};
field.addEventListener("input", search);
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
field.form.addEventListener("keydown", (event) => {
  const stops = [field, ...found.querySelectorAll("a")];
  const step = { ArrowDown: 1, ArrowUp: -1, Escape: -Infinity }[event.key];
  if (!step) return;
  event.preventDefault();
  stops[Math.max(0, stops.indexOf(document.activeElement) + step)]?.focus();
  if (event.key === "Escape") field.form.reset();
});
field.form.addEventListener("reset", () => setTimeout(search));
document.addEventListener("click", (event) => event.target === field || field.form.reset());
field.form.hidden = false;

// light or dark, as the reader chose, else as the system has it
const theme = document.getElementById("theme"), systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const stored = (write) => {
  try {
    return write === undefined ? localStorage.getItem("theme") : localStorage.setItem("theme", write);
  } catch {} // where nothing may be stored
};
if (stored()) document.documentElement.dataset.theme = stored();
theme.hidden = false;
theme.addEventListener("click", () => {
  const dark = (document.documentElement.dataset.theme ?? (systemIsDark.matches ? "dark" : "light")) === "dark";
  stored((document.documentElement.dataset.theme = dark ? "light" : "dark"));
});

// the section that is being read is lit in the contents
const entries = new Map([...document.querySelectorAll("aside .contents a[href^='#']")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
const heads = [...entries.keys()].map((anchor) => document.getElementById(anchor));
addEventListener("scroll", () => {
  const current = heads.findLast((head) => head.getBoundingClientRect().top < innerHeight / 3) ?? heads[0];
  for (const [anchor, link] of entries) current?.id === anchor ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
}, { passive: true });

// a part of the page that translates opens below the paragraph that links to it, and closes again
for (const link of document.querySelectorAll("a.live")) {
  link.setAttribute("aria-expanded", "false");
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // in a tab of its own
    event.preventDefault();
    const open = link.getAttribute("aria-expanded") === "true", paragraph = link.closest("p");
    link.setAttribute("aria-expanded", String(!open));
    if (open) return paragraph.nextElementSibling.remove();
    const frame = document.createElement("iframe");
    Object.assign(frame, { className: "live", src: link.href, title: link.textContent });
    paragraph.after(frame);
  });
}

// the same section in the other language
const translation = document.querySelector("a.other");
translation.addEventListener("click", () => (translation.hash = location.hash));

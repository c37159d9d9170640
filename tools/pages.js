// The search field of the site. It needs no server: the index is a script, which the first focus loads.
// All words must stand in a section; the last may be the beginning of one.

const field = document.getElementById("search");
const found = document.getElementById("found");
const told = document.getElementById("told");
const MOST = 40; // results that are listed

const wordsOf = (text) =>
  text.normalize("NFKC").toLowerCase().match(/[\u3400-\u9fff]|(?:(?![\u3400-\u9fff])[\p{L}\p{N}])+/gu) || [];

/** The sections that have a word: their numbers. */
function sectionsWith(word, isBeginning) {
  const { words } = searchIndex;
  const names = isBeginning ? Object.keys(words).filter((name) => name.startsWith(word)) : [word];
  const numbers = new Set();
  for (const name of names) {
    let number = 0;
    for (const step of (words[name] || "").split(" ").filter(Boolean)) numbers.add((number += Number(step)));
  }
  return numbers;
}

function search() {
  const words = wordsOf(field.value);
  found.replaceChildren();
  told.textContent = "";
  if (!words.length || !window.searchIndex) return;
  const { pages, sections } = searchIndex;
  const sets = words.map((word, place) => sectionsWith(word, place === words.length - 1));
  const named = ([page, , title]) => pages[page][1] + (title && ` › ${title}`);
  const inName = (section) => words.filter((word) => named(section).toLowerCase().includes(word)).length;
  const hits = sections.filter((_, number) => sets.every((set) => set.has(number)));
  hits.sort((one, other) => inName(other) - inName(one)); // those that have words in their titles first
  told.textContent = `${hits.length} ${told.dataset.found}`;
  for (const section of hits.slice(0, MOST)) {
    const link = document.createElement("a");
    link.href = `${pages[section[0]][0]}#${section[1]}`;
    link.textContent = named(section);
    const item = document.createElement("li");
    found.appendChild(item).append(link);
  }
}

field.addEventListener("focus", () => {
  const script = document.createElement("script");
  script.src = "search.js";
  script.onload = search;
  document.head.append(script);
}, { once: true });
field.addEventListener("input", search);
field.form.addEventListener("submit", (event) => (event.preventDefault(), found.querySelector("a")?.click()));
field.form.addEventListener("keydown", (event) => {
  const stops = [field, ...found.querySelectorAll("a")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") (field.focus(), (field.value = ""), search());
  if (step) (event.preventDefault(), stops[stops.indexOf(document.activeElement) + step]?.focus());
});
addEventListener("click", (event) => field.form.contains(event.target.closest("input")) || found.replaceChildren());
field.form.hidden = false;

// the same section in the other language
document.querySelector("a.other")?.addEventListener("click", (event) => (event.currentTarget.hash = location.hash));

// Sphinx 9.0 names a Chinese stemmer in its search that it does not ship; it stems English words alone.
if (document.documentElement.lang.startsWith("zh")) window.ChineseStemmer = function () { return new EnglishStemmer(); };

addEventListener("DOMContentLoaded", () => {
  // A lesson's second reading is folded as a whole. It opens for a link into it, and for print.
  const section = document.querySelector(".second-reading-mark")?.closest("section");
  if (section) {
    const fold = document.createElement("details");
    const summary = fold.appendChild(document.createElement("summary"));
    fold.className = "second-reading";
    summary.append(section.querySelector("h2"));
    fold.append(...section.childNodes);
    section.append(fold);
    const open = () => {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (target && section.contains(target)) fold.open = true;
    };
    addEventListener("hashchange", open);
    open();
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));

  // the attention viewer in place of its picture
  for (const data of document.querySelectorAll(".viewer > script")) {
    render({ model: loose(JSON.parse(data.textContent)), el: data.parentElement });
  }
});

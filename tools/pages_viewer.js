
// Behind the viewer, on a page: each figure that holds maps gets it in place of its picture.
for (const data of document.querySelectorAll('figure > script[type="application/json"]')) {
  const el = document.createElement("div");
  el.className = "viewer";
  render({ model: loose(JSON.parse(data.textContent)), el });
  data.parentElement.querySelector(".picture").replaceWith(el);
}

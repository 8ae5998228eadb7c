"use strict";
// Tables that are .sorted, or in a part that is, sort by the column whose head is clicked or entered.
const content = (row, column) => {
  const cell = row.cells[column];
  const value = cell.dataset.value ?? cell.textContent.trim();
  return value !== "" && Number.isFinite(Number(value)) ? Number(value) : value;
};

function sortBy(head) {
  const column = head.cellIndex;
  const body = head.closest("table").tBodies[0];
  const ascending = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const texts = new Intl.Collator("en", { numeric: true });
  const order = (a, b) => {
    const [x, y] = [content(a, column), content(b, column)];
    if (typeof x === typeof y) return (typeof x === "number" ? x - y : texts.compare(x, y)) * (ascending ? 1 : -1);
    // What has no figure comes last.
    return typeof x === "number" ? -1 : 1;
  };
  body.append(...[...body.rows].sort(order));
}

for (const head of document.querySelectorAll(".sorted thead th")) {
  head.tabIndex = 0;
  head.addEventListener("click", () => sortBy(head));
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sortBy(head); });
}

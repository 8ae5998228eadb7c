"use strict";

// A click on a head sorts by that column, a second one the other way round.
function sort(head) {
  const table = head.closest("table");
  const body = table.tBodies[0];
  const column = head.cellIndex;
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
  const order = new Intl.Collator("en", { numeric: true });
  const rows = [...body.rows].sort((a, b) => order.compare(key(a), key(b)) * (up ? 1 : -1));
  body.append(...rows);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("table.sorts thead button");
  if (button) sort(button.parentNode);
});

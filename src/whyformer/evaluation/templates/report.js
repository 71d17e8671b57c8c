// Columns that sort, lines that stand out when they are pointed at, and details that print.
(() => {
"use strict";

// -- tables ----------------------------------------------------------------------------------

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const rows = [...body.rows]; // in the order of the run, which the third press restores
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!column) return cell.textContent;
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const first = !column || head.dataset.better === "lower" ? "ascending" : "descending";
    const second = first === "ascending" ? "descending" : "ascending";
    button.addEventListener("click", () => {
      const now = {[first]: second, [second]: null}[head.getAttribute("aria-sort")];
      const way = now === undefined ? first : now;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (way) head.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      const ordered = !way ? rows : [...rows].sort((one, other) => {
        const a = key(one, column), b = key(other, column);
        if (a === null || b === null) return (a === null) - (b === null); // no number: last
        return sign * (column ? a - b : a.localeCompare(b));
      });
      body.append(...ordered);
    });
  });
}

// -- curves ----------------------------------------------------------------------------------

function makePickable(drawing) {
  const labels = [...drawing.querySelectorAll(".label")];
  const order = labels.map((label) => label.dataset.line);
  let at = -1;
  const pick = (line) => {
    drawing.classList.toggle("picking", line !== null);
    for (const part of drawing.querySelectorAll("[data-line]")) {
      part.classList.toggle("picked", part.dataset.line === line);
    }
  };
  for (const part of drawing.querySelectorAll("[data-line]")) {
    part.addEventListener("pointerenter", () => pick(part.dataset.line));
    part.addEventListener("pointerleave", () => pick(at < 0 ? null : order[at]));
  }
  if (!order.length) return;
  drawing.tabIndex = 0;
  const live = document.createElement("p");
  live.className = "quiet";
  live.setAttribute("role", "status");
  drawing.parentElement.after(live);
  const go = (to) => {
    at = to;
    pick(at < 0 ? null : order[at]);
    live.textContent = at < 0 ? "" : labels[at].querySelector("title").textContent;
  };
  drawing.addEventListener("keydown", (event) => {
    const step = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[event.key];
    if (step) go(at < 0 ? (step > 0 ? 0 : order.length - 1) : (at + step + order.length) % order.length);
    else if (event.key === "Escape") go(-1);
    else return;
    event.preventDefault();
  });
  drawing.addEventListener("blur", () => go(-1));
}

document.querySelectorAll("table[data-sortable]").forEach(makeSortable);
document.querySelectorAll("svg.curves").forEach(makePickable);

// -- print: all details are open ---------------------------------------------------------------

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => {
  opened.forEach((one) => { one.open = false; });
});
})();

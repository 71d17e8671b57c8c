// Describe the cell of an output-by-input table that is pointed at or reached by arrow keys.

for (const table of document.querySelectorAll(".whyformer .matrix")) {
  const area = table.closest(".wide");
  const status = table.closest(".table").querySelector(".status");
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells];
  const were = [...status.childNodes];
  let at = null;

  function show(cell) {
    table.querySelectorAll(".at").forEach((marked) => marked.classList.remove("at"));
    if (!cell) return status.replaceChildren(...were);
    const row = cell.parentElement.cells[0], column = heads[cell.cellIndex];
    [cell, row, column].forEach((marked) => marked.classList.add("at"));
    status.replaceChildren(...quoted(column.textContent), " for ", ...quoted(row.textContent), ": ",
      element("strong", cell.textContent));
  }

  const cellOf = (event) => event.target.closest("td[class]");
  table.addEventListener("pointerover", (event) => show(cellOf(event) ?? at));
  table.addEventListener("pointerleave", () => show(at));
  table.addEventListener("click", (event) => show(at = cellOf(event) ?? at));
  area.addEventListener("blur", () => show(at = null));
  area.addEventListener("keydown", (event) => {
    const step = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]}[event.key];
    if (event.key === "Escape") show(at = null);
    else if (step) {
      const row = at ? rows.indexOf(at.parentElement) + step[0] : 0;
      const column = at ? at.cellIndex + step[1] : 1;
      const wide = heads.length - 1;
      at = rows[(row + rows.length) % rows.length].cells[(column - 1 + wide) % wide + 1];
      at.scrollIntoView({block: "nearest", inline: "nearest"});
      show(at);
    } else return;
    event.preventDefault();
  });
}

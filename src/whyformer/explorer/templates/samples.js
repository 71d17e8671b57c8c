// The table of a dataset's samples: choose one, or walk from one to the next.

const $ = (id) => document.getElementById(id);

function create(name, text, className = "") {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  node.className = className;
  return node;
}

export class Samples {
  // `choose` is called with the row that the reader wants explained.
  constructor(choose) {
    this.choose = choose;
    this.rows = new Map();
    this.current = null;
    this.count = 0;
    if (!$("samples-field")) return;
    $("sample-before").addEventListener("click", () => this.walk(-1));
    $("sample-next").addEventListener("click", () => this.walk(1));
    $("samples-more").addEventListener("click", () => this.load(this.rows.size));
    this.load(0);
  }

  async load(start) {
    const answer = await fetch(`samples?start=${start}`);
    if (!answer.ok) return;
    const {count, rows} = await answer.json();
    this.count = count;
    for (const row of rows) {
      const line = create("tr"), cell = create("td"), button = create("button", row.text ?? (row.second ?? `image ${row.index + 1}`));
      button.type = "button";
      button.title = button.textContent;
      button.addEventListener("click", () => this.select(row.index));
      cell.append(button);
      line.append(create("td", String(row.index + 1)), cell, create("td", row.label ?? "–"), create("td", "", "predicted"));
      $("samples").append(line);
      this.rows.set(row.index, {...row, line});
    }
    $("samples-more").hidden = this.rows.size >= count;
    this.mark();
  }

  async walk(step) {
    const index = this.current === null ? 0 : this.current + step;
    if (index < 0 || index >= this.count) return;
    if (!this.rows.has(index)) await this.load(this.rows.size);
    this.select(index);
  }

  select(index) {
    this.current = index;
    this.mark();
    this.rows.get(index).line.scrollIntoView({block: "nearest"});
    this.choose(this.rows.get(index));
  }

  // The model's answer for the sample that was chosen.
  predicted(name) {
    const row = this.rows.get(this.current);
    if (!row) return;
    const cell = row.line.lastChild;
    cell.textContent = name;
    cell.classList.toggle("wrong", row.label !== null && row.label !== name);
  }

  leave() {
    this.current = null;
    this.mark();
  }

  mark() {
    for (const [index, {line}] of this.rows) line.classList.toggle("chosen", index === this.current);
    $("sample-place").textContent = this.current === null ? `${this.count} samples` : `${this.current + 1} of ${this.count}`;
    $("sample-before").disabled = !this.current;
    $("sample-next").disabled = this.current !== null && this.current + 1 >= this.count;
  }
}

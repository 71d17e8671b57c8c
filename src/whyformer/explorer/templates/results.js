// Show the events of a job on the page as they arrive. Everything is set as text.

import {Chart, lineOf} from "./curve.js";

const $ = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(1).replace(/\.0$/, "").replace("-", "−")} %`;
const likely = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : percent(share));

function create(name, text, className = "") {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  node.className = className;
  return node;
}

export class Results {
  // `ask` is called with the name of a class that the reader wants explained.
  constructor(ask) {
    this.ask = ask;
    this.frame = $("report");
    addEventListener("message", ({source, data}) => {
      const frame = [...document.querySelectorAll("#reports iframe")].find((one) => one.contentWindow === source);
      if (!frame || !Number.isFinite(data?.height)) return;
      frame.style.height = `${Math.min(Math.max(data.height, 120), 30000)}px`;
    });
  }

  begin(methods) {
    this.methods = methods;
    this.charts = new Map();
    this.rows = new Map();
    this.shown = new Set();
    this.outcome = {id: null, shares: []};
    for (const id of ["error", "welcome", "answers", "written", "report", "trust", "files", "curve-note", "notes"]) $(id).hidden = true;
    for (const id of ["rows", "columns", "notes"]) $(id).replaceChildren();
    document.querySelector(".charts").replaceChildren();
    for (const title of ["method", "why", "time", "sum / output", "trust"]) this.column(title);
    $("progress").hidden = false;
    this.step({done: 0, of: 1, says: "asking"});
  }

  end() {
    $("progress").hidden = true;
  }

  fail(says) {
    $("error").textContent = says.charAt(0).toUpperCase() + says.slice(1) + (/[.?!]$/.test(says) ? "" : ".");
    $("error").hidden = false;
    $("welcome").hidden = true;
    if (this.frame.hidden) $("trust").hidden = true;  // the sentence says it all
  }

  take(event) {
    this[event.event]?.(event);
  }

  // -- one function for each event ----------------------------------------------------------

  queued({ahead}) {
    $("status").textContent = ahead === 1 ? "waiting for one other explanation" : `waiting for ${ahead} other explanations`;
  }

  step({done, of, says}) {
    $("status").textContent = `${says} …`;
    document.querySelector("progress").value = Math.max(done / of, 0.02);
  }

  method({method, label, seconds, conservation, promises, trust, reasons, notes}) {
    const row = this.row(method);
    const why = create("td");
    why.append(create("bdi", label));
    why.dataset.label = label;
    const share = conservation === null ? "–" : percent(Math.round(100 * conservation) / 100);
    row.append(why, create("td", `${seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(0)} s`), create("td", share));
    if (conservation !== null && !promises) row.lastChild.title = "this method's scores are not expected to sum to the output";
    const verdict = create("td", trust, `trust ${trust.replaceAll(" ", "-")}`);
    verdict.title = reasons;
    row.append(verdict);
    if (trust === "doubtful") this.remark(`${method}: ${reasons}`);
    notes.forEach((note) => this.remark(note));
    this.label ??= label;
  }

  failed({method, says}) {
    const cell = create("td", says, "says");
    cell.colSpan = 4;
    this.row(method).append(cell);
    $("trust").hidden = false;
  }

  report({id, label}) {
    this.label = label;
    this.outcome.id = id;
    this.frame.src = `results/${id}/report`;
    this.frame.hidden = false;
    for (const link of document.querySelectorAll("#files .file")) link.href = `results/${id}/${link.download}`;
    $("files").hidden = $("trust").hidden = false;
  }

  answers({classes}) {
    $("classes").replaceChildren(...classes.map(({name, share}) => Object.assign(create("option"), {value: name, label: `${name}, ${likely(share)}`})));
    if (!classes.length) return;
    this.outcome.shares = classes;
    for (const cell of document.querySelectorAll("#rows [data-label]")) {
      const known = classes.find(({name}) => name === cell.dataset.label);
      if (known) cell.append(` ${likely(known.share)}`);
    }
    document.querySelector(".bars").replaceChildren(...classes.map(({name, share}) => {
      const button = create("button"), bar = create("i"), label = create("bdi", name);
      button.type = "button";
      button.setAttribute("aria-pressed", name === this.label);
      button.title = label.title = `Why ${name}?`;
      bar.style.width = `${100 * share}%`;
      button.append(label, bar, create("b", likely(share)));
      button.addEventListener("click", () => this.ask(name));
      return button;
    }));
    $("answers").hidden = false;
  }

  // The words that the model wrote; a click on one colours the prompt by what led to it.
  answer({words}) {
    this.outcome.shares = words.filter(({special}) => !special).map(({text, share}) => ({name: text, share}));
    $("prompt").textContent = $("text").value;
    $("prompt").hidden = $("text-field").hidden || !$("text").value;
    $("words").replaceChildren(...words.map(({text, special, share}, index) => {
      const button = create("button", undefined, special ? "special" : "");
      button.type = "button";
      button.setAttribute("aria-pressed", false);
      button.append(create("bdi", text), create("small", share === null ? "" : likely(share)));
      button.title = `What led to “${text}”?`;
      button.classList.toggle("unsure", share !== null && share < 0.5);
      button.addEventListener("click", () => {
        const was = button.getAttribute("aria-pressed") === "true";
        for (const other of $("words").children) other.setAttribute("aria-pressed", other === button && !was);
        this.frame.contentWindow.postMessage({word: index}, "*");
      });
      return button;
    }));
    $("written").hidden = false;
  }

  curves({streams}) {
    for (const stream of streams) {
      this.charts.set(stream, new Chart(document.querySelector(".charts"), stream, this.methods));
      this.column(streams.length > 1 ? `area, ${stream}` : "area");
    }
    $("curve-note").hidden = false;
  }

  point({method, stream, share, value}) {
    this.charts.get(stream).add(method, share, value);
  }

  area({method, value}) {
    this.row(method).append(create("td", value.toFixed(3)));
  }

  unmeasured({method, says}) {
    if (method) this.row(method).append(create("td", "–"));
    this.remark(`No curve: ${says.replace(/\.$/, "")}.`);
  }

  note({says}) {
    this.remark(`${says.charAt(0).toUpperCase()}${says.slice(1)}.`);
  }

  error({says}) {
    if (says !== "cancelled") this.fail(says);
  }

  // -- the table ----------------------------------------------------------------------------

  column(title) {
    const cell = create("th", title);
    cell.scope = "col";
    $("columns").append(cell);
  }

  row(method) {
    if (!this.rows.has(method)) {
      const row = create("tr"), head = create("th"), {colour, dash} = lineOf(this.methods.indexOf(method));
      head.scope = "row";
      head.append(create("span", undefined, `swatch ${colour} ${["", "dashed", "dotted"][dash]}`), method);
      row.append(head);
      const alone = (name) => this.charts.forEach((chart) => chart.only(name));
      row.addEventListener("pointerenter", () => alone(method));
      row.addEventListener("pointerleave", () => alone());
      $("rows").append(row);
      this.rows.set(method, row);
    }
    return this.rows.get(method);
  }

  remark(text) {
    if (this.shown.has(text)) return;
    this.shown.add(text);
    $("notes").append(...($("notes").hasChildNodes() ? [create("br")] : []), text);
    $("notes").hidden = false;
  }
}

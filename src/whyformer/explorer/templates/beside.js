// Reports beside the main one: other models, and the result before.

const $ = (id) => document.getElementById(id);
const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1).replace(/\.0$/, "")} %`);

function create(name, text, className = "") {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  node.className = className;
  return node;
}

// The words of both texts: "same", "del" (only before) or "ins" (only now), by longest common part.
export function difference(before, now) {
  const [a, b] = [before, now].map((text) => text.split(/\s+/).filter(Boolean));
  const long = Array.from({length: a.length + 1}, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      long[i][j] = a[i] === b[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
    }
  }
  const parts = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) { parts.push(["same", b[j]]); i++; j++; }
    else if (j >= b.length || (i < a.length && long[i + 1][j] >= long[i][j + 1])) parts.push(["del", a[i++]]);
    else parts.push(["ins", b[j++]]);
  }
  return parts;
}

export class Card {
  // A report with a title and the probabilities of its classes or words.
  constructor(title) {
    this.node = create("section", undefined, "card");
    this.shares = create("p", undefined, "shares");
    this.status = create("p", "waiting …", "hint");
    this.frame = document.createElement("iframe");
    this.frame.sandbox = "allow-scripts";
    this.frame.title = `The explanation: ${title}`;
    this.frame.hidden = true;
    this.node.append(create("h3", title), this.shares, this.status, this.frame);
    $("reports").append(this.node);
    $("reports").classList.add("several");
  }

  take(event) {
    this[event.event]?.(event);
  }

  step({says}) { this.status.textContent = `${says} …`; }

  report({id}) {
    this.frame.src = `results/${id}/report`;
    this.frame.hidden = false;
    this.status.hidden = true;
  }

  answers({classes}) { this.list(classes); }

  answer({words}) { this.list(words.filter((w) => !w.special).map((w) => ({name: w.text, share: w.share}))); }

  list(found) {
    this.shares.replaceChildren(...found.flatMap(({name, share}) => [create("bdi", name), ` ${share === null ? "" : percent(share)}  `]));
  }

  failed({method, says}) { this.error({says: `${method}: ${says}`}); }

  error({says}) {
    this.status.textContent = says;
    this.status.classList.add("bad");
    this.status.hidden = false;
  }
}

export class Beside {
  clear() {
    for (const card of document.querySelectorAll("#reports .card:not(.main)")) card.remove();
    $("reports").classList.remove("several");
    $("report-title").hidden = true;
    $("change").hidden = true;
  }

  add(title, main) {
    $("report-title").textContent = main;
    $("report-title").hidden = false;
    return new Card(title);
  }

  // The result before, as a card of its own.
  before(last) {
    const card = this.add("Before", "Now");
    card.take({event: "report", id: last.id});
    card.list(last.shares);
  }

  // What was edited, and how the probabilities of the classes moved.
  change(last, now) {
    const text = create("p");
    if (last.text !== now.text) {
      for (const [kind, part] of difference(last.text ?? "", now.text ?? "")) text.append(kind === "same" ? part : create(kind, part), " ");
    }
    const moved = now.shares.filter(({share}) => share !== null).flatMap(({name, share}) => {
      const old = last.shares.find((one) => one.name === name);
      return old ? [[name, old.share, share]] : [];
    });
    const list = create("ul");
    for (const [name, from, to] of moved) {
      const item = create("li");
      item.append(create("bdi", name), `: ${percent(from)} before, ${percent(to)} now`);
      list.append(item);
    }
    $("change").replaceChildren(create("h2", "What changed"), text, list);
    $("change").hidden = !text.hasChildNodes() && !moved.length;
  }
}

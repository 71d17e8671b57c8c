// Deletion curves, drawn while they are measured.

const SPACE = "http://www.w3.org/2000/svg";
const WIDE = 360, HIGH = 200, LEFT = 36, BOTTOM = 34, TOP = 8, RIGHT = 8;
const DASHES = ["", "6 4", "1.5 4"];

export const lineOf = (index) => ({colour: `c${index % 8}`, dash: Math.floor(index / 8) % 3});

const x = (share) => LEFT + share * (WIDE - LEFT - RIGHT);
const y = (value) => TOP + (1 - value) * (HIGH - TOP - BOTTOM);

function append(parent, name, facts, text) {
  const node = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(facts)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

export class Chart {
  // `stream` is the stream that loses tokens; `methods` are all methods that get a line, in order.
  constructor(place, stream, methods) {
    this.methods = methods;
    this.lines = new Map();
    this.figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = `probability of the answer as parts of the ${stream} are removed`;
    this.svg = append(this.figure, "svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img",
      "aria-label": `deletion curves of the ${stream}; the table has their areas`});
    this.figure.prepend(caption);
    for (const value of [0, 0.5, 1]) {
      append(this.svg, "line", {class: "axis", x1: x(0), x2: x(1), y1: y(value), y2: y(value)});
      append(this.svg, "text", {x: LEFT - 6, y: y(value) + 4, "text-anchor": "end"}, `${100 * value}`);
    }
    for (const share of [0, 0.5, 1]) {
      append(this.svg, "text", {x: x(share), y: HIGH - BOTTOM + 16,
        "text-anchor": share === 1 ? "end" : share ? "middle" : "start"}, `${100 * share} %`);
    }
    append(this.svg, "text", {x: (x(0) + x(1)) / 2, y: HIGH - 3, "text-anchor": "middle"},
      "removed, most relevant first");
    place.append(this.figure);
  }

  add(method, share, value) {
    let line = this.lines.get(method);
    if (!line) {
      const {colour, dash} = lineOf(this.methods.indexOf(method));
      const node = append(this.svg, "polyline", {class: colour, "stroke-dasharray": DASHES[dash]});
      line = {node, head: append(this.svg, "circle", {class: colour, r: 3}), points: []};
      append(node, "title", {}, method);
      this.lines.set(method, line);
    }
    line.points.push(`${x(share).toFixed(1)},${y(value).toFixed(1)}`);
    line.node.setAttribute("points", line.points.join(" "));
    line.head.setAttribute("cx", x(share).toFixed(1));
    line.head.setAttribute("cy", y(value).toFixed(1));
  }

  // Fade all lines but one method's; without a name, show all of them.
  only(method) {
    for (const [name, {node, head}] of this.lines) {
      for (const part of [node, head]) part.classList.toggle("faint", Boolean(method) && name !== method);
    }
  }
}

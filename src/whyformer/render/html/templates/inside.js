// Layers and heads: the row of any token in any head. Maps are unpacked when they are first shown.

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

function unpacked({columns, kept, scales, values, at}, levels) {
  const scale = new Float32Array(bytesOf(scales).buffer), steps = new Int8Array(bytesOf(values).buffer);
  const places = at && new Uint16Array(bytesOf(at).buffer), wide = at ? kept : columns;
  return (row) => {
    const out = new Float32Array(columns), unit = scale[row] / levels;
    for (let j = 0, i = row * wide; j < wide; j++, i++) out[places ? places[i] : j] = steps[i] * unit;
    return out;
  };
}

function inside(card, box) {
  const data = JSON.parse(box.querySelector("script.layers").textContent);
  const controls = element("div", "", "controls"), shows = element("p", "", "shows");
  const status = element("p", "", "status"), legend = element("p", "", "legend");
  const area = element("div", "", "stacks");
  legend.append(element("span"), element("span", "", "scale for-words"), element("span"));
  status.setAttribute("role", "status");
  // Start at the last layer in which a deciding token is a query: it is closest to the answer.
  const decides = data.layers.map((layer) => data.stacks[layer.asking].deciding.length > 0);
  const last = decides.includes(true) ? decides.lastIndexOf(true) : decides.length - 1;
  const now = {layer: last, head: -1, kind: 0};
  let pinned = null, heads = null;

  // -- the tokens of each stack --------------------------------------------------------------

  const stacks = Object.fromEntries(Object.entries(data.stacks).map(([name, stack]) => {
    const block = element("div", "", "stack"), tokens = [], pictures = [], special = new Set();
    const role = element("p", "", "role");
    let start = 0;
    block.append(role);
    for (const part of stack.parts) {
      const from = start, on = {
        show: (item) => show(item === null ? pinned : chosenQuery(name, from + item)),
        focus: (item) => show(chosenQuery(name, from + item)),
        press: (item) => press(chosenQuery(name, from + item)),
      };
      if (part.grid) {
        const stage = element("div", "", "stage"), figure = element("figure");
        const seen = card.querySelector(`[data-panel="${part.panel}"] [data-seen] img`);
        stage.dataset.paint = seen ? "overlay" : "patches";
        const painter = painterOf(stage, data.ink, part.grid, seen);
        if (seen) {
          const copy = element("img");
          Object.assign(copy, {src: seen.src, alt: ""});
          stage.prepend(copy);
        } else stage.classList.add("bare");
        pointPatches(stage, painter, part.grid, 0, part.name, on);
        figure.append(stage);
        block.append(figure);
        start += part.grid[0] * part.grid[1];
        pictures.push({from, to: start, painter, columns: part.grid[1]});
      } else {
        const line = element("p", "", "words tokens");
        line.dir = part.direction;
        const made = part.tokens.map((text, i) => {
          const token = element("span", text, "word p0");
          token.dir = "auto";
          if (part.special.includes(i)) { special.add(from + i); token.classList.add("special"); }
          token.was = token.className.replace(" p0", "");
          token.now = token.className;
          tokens[from + i] = token;
          return token;
        });
        pointTokens(made, on, line);
        line.append(...made.flatMap((token) => [token, " "]));
        block.append(line);
        start += made.length;
      }
    }
    return [name, {...stack, name, block, role, tokens, pictures, special, size: start}];
  }));

  function nameOf(stack, item) {
    if (stack.tokens[item]) return stack.tokens[item].textContent;
    const picture = stack.pictures.find(({from, to}) => item >= from && item < to);
    return "patch " + patchName(item - picture.from, picture.columns);
  }

  // -- one row -------------------------------------------------------------------------------

  const kept = new Map();
  function rows() {
    const key = `${now.layer} ${now.kind}`;
    if (!kept.has(key)) {
      const parts = Object.entries(data.layers[now.layer].maps[now.kind]);
      kept.set(key, Object.fromEntries(parts.map(([n, block]) => [n, unpacked(block, data.levels)])));
    }
    return kept.get(key);
  }

  // Only tokens that are queries of this layer can be chosen.
  const chosenQuery = (stack, item) => data.layers[now.layer].asking === stack ? item : pinned;

  function show(item) {
    const layer = data.layers[now.layer], asking = stacks[layer.asking];
    const answering = stacks[layer.answering], found = rows();
    const values = item === null ? found.start(now.head + 1)
      : now.head < 0 ? found.mean(item) : found.heads(now.head * asking.size + item);
    const own = values.filter((_, i) => !answering.special.has(i));
    const span = largest(own) || largest(values) || 1, signed = now.kind === 1;
    const format = (v) => signed ? number(v, span) : number(v, span).replace("+", "");
    const marked = item === null && asking.deciding.length === 1 ? asking.deciding[0] : item;
    for (const stack of new Set([asking, answering])) {
      stack.tokens.forEach((token, i) => {
        const colour = stack === answering ? colourClass(values[i], span, data.ink.steps) : "p0";
        const chosen = stack === asking && i === marked ? " chosen" : "";
        const next = `${token.was} ${colour}${chosen}`;
        if (next !== token.now) token.className = token.now = next;
        const title = stack === answering ? format(values[i]) : "";
        if (token.title !== title) token.title = title;
      });
      for (const {from, to, painter} of stack.pictures) {
        const shown = stack === answering ? values.subarray(from, to) : null;
        painter.show(shown, span);
        const asks = stack === asking && marked !== null && marked >= from && marked < to;
        painter.mark(asks ? marked - from : null);
      }
    }
    legend.children[0].textContent = signed ? number(-span, span) : "0";
    legend.children[1].className = `scale for-words ${signed ? "signed" : "warm"}`;
    legend.children[2].textContent = `${format(span)} of ${data.kinds[now.kind]}`;
    const head = now.head < 0 ? `mean of ${layer.heads} heads` : `head ${now.head + 1}`;
    shows.replaceChildren(element("strong", `Layer ${layer.number}, ${head}`), ": where ",
      ...(item === null ? startName(asking) : quoted(nameOf(asking, item))), " looks");
    const order = Array.from(values.keys()).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
    const best = order.slice(0, 5).filter((i) => values[i])
      .flatMap((i, n) => [n ? "; " : "", element("bdi", nameOf(answering, i)), ` ${format(values[i])}`]);
    status.replaceChildren("strongest: ", ...(best.length ? best : ["nothing"]));
  }

  function startName(stack) {
    const {deciding} = stack;
    if (deciding.length === 1) return [...quoted(nameOf(stack, deciding[0])), ", which decides the answer,"];
    return [deciding.length ? `the mean of the ${deciding.length} tokens that decide the answer`
      : "the mean of all tokens"];
  }

  function press(item) {
    const on = pinned !== item;
    unpress(area);
    pinned = on ? item : null;
    show(item);
    return on;
  }

  function arrange() {
    const {asking, answering, heads: count} = data.layers[now.layer];
    const shown = asking === answering ? [stacks[asking]] : [stacks[asking], stacks[answering]];
    shown.forEach((stack, i) => {
      stack.role.textContent = shown.length === 1 ? "" : `${i ? "answering" : "asking"}: ${stack.name}`;
    });
    area.replaceChildren(...shown.map((stack) => stack.block));
    if (heads !== count) {
      now.head = Math.min(now.head, count - 1);
      const names = ["mean", ...Array.from({length: count}, (_, i) => String(i + 1))];
      const made = choices("head", names, now.head + 1, (i) => { now.head = i - 1; show(pinned); });
      controls.querySelector(".heads")?.remove();
      made.classList.add("heads");
      controls.append(made);
      heads = count;
    }
  }

  const several = Object.keys(stacks).length > 1;
  const names = data.layers.map(({number: n, asking, answering}) => !several ? String(n)
    : asking === answering ? `${n} ${asking}` : `${n} ${asking} to ${answering}`);
  if (data.kinds.length > 1) {
    controls.append(choices("show", data.kinds, 0, (i) => { now.kind = i; show(pinned); }));
  }
  controls.append(choices("layer", names, now.layer, (i) => {
    if (data.layers[i].asking !== data.layers[now.layer].asking) { pinned = null; unpress(area); }
    now.layer = i;
    arrange();
    show(pinned);
  }));
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    pinned = null;
    unpress(area);
    show(null);
    event.stopPropagation();
  });
  const hint = "Point at a token or a patch to see what it attends to. Click to keep it, press Escape to"
    + " go back. Keyboard: Tab, then arrow keys.";
  box.append(controls, shows, area, legend, status, element("p", `${hint} ${data.note}`, "note"));
  arrange();
  show(null);
}

for (const box of document.querySelectorAll(".whyformer .inside")) {
  box.hidden = false;
  box.addEventListener("toggle", () => inside(box.closest(".card"), box), {once: true});
}

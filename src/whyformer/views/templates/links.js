// A word or patch that is pointed at, focused or pressed shows its relevance in the other streams.
(() => {
"use strict";

const largest = (values) => values.map(Math.abs).reduce((a, b) => Math.max(a, b), 0);

// The same as `number` of reading.py: as many places as three digits of the span need.
function number(value, span) {
  const size = Math.abs(span || value);
  let text = size >= 1e-4 && size < 1e6
    ? Math.abs(value).toFixed(Math.max(0, 2 - Math.floor(Math.log10(size))))
    : Math.abs(value).toExponential(2).replace("-", "\u2212");
  if (!/[1-9]/.test(text)) return value ? text : "0";
  return (value < 0 ? "\u2212" : "+") + text;
}

function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function link(card) {
  const data = JSON.parse(card.querySelector("script.links").textContent);
  const live = card.querySelector(".live");
  const find = (selector) => [...card.querySelectorAll(selector)];
  const rgb = data.palette.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  let pinned = null;

  const panels = data.panels.map((panel, i) => {
    const words = find(`[data-panel="${i}"] .words .word`);
    const said = find(`[data-said="${i}"] .word`);
    const stages = find(`[data-panel="${i}"] [data-paint]`);
    return {
      ...panel, i, words, stages,
      asks: said.length ? said : words,
      ownWords: !said.length,
      seen: card.querySelector(`[data-panel="${i}"] [data-seen] img`),
      shows: {words: card.querySelector(`[data-panel="${i}"] .shows`),
              said: card.querySelector(`[data-said="${i}"] .shows`)},
      legend: card.querySelector(`[data-panel="${i}"] .legend`),
      note: card.querySelector(`[data-panel="${i}"] .note`),
    };
  });

  // -- what is known about a choice ----------------------------------------------------------

  function relevance(choice, target) {
    const between = (asking, answering) =>
      data.maps.find((m) => m.asking === asking && m.answering === answering);
    const row = choice.asks && between(choice.panel, target.i);
    if (row && (choice.panel !== target.i || !target.ownWords)) {
      return {row: true, values: row.rows[choice.item].map((v) => v * row.units[choice.item])};
    }
    const column = choice.answers && between(target.i, choice.panel);
    if (column && (choice.panel !== target.i || !target.ownWords)) {
      return {row: false, values: column.rows.map((r, p) => r[choice.item] * column.units[p])};
    }
    return null;
  }

  function named(choice) {
    const panel = panels[choice.panel];
    if (panel.grid) {
      const at = element("span", "patch row " + (Math.floor(choice.item / panel.grid[1]) + 1)
        + ", column " + (choice.item % panel.grid[1] + 1));
      return [at];
    }
    const words = choice.asks ? panel.asks : panel.words;
    return ["\u201c", element("bdi", words[choice.item].textContent), "\u201d"];
  }

  // -- showing it ----------------------------------------------------------------------------

  function show(choice) {
    restore();
    if (!choice) return [];
    mark(choice);
    const said = [];
    for (const target of panels) {
      const found = relevance(choice, target);
      if (!found) continue;
      const words = found.row ? target.words : target.asks;
      const own = found.values.filter((_, i) => !words[i]?.classList.contains("special"));
      const span = largest(own) || largest(found.values) || 1;
      if (target.grid) paint(target, found.values, span); else colour(words, found.values, span);
      const shows = !found.row && target.shows.said || target.shows.words;
      shows.replaceChildren(...(found.row
        ? ["relevance for ", ...named(choice)]
        : ["relevance of ", ...named(choice), ` for each of these ${target.unit}`]),
        largest(found.values) ? `, full colour at ${number(span)}` : ": all 0");
      shows.classList.add("linked-now");
      if (shows === target.shows.words) scale(target, found.values, span);
      said.push(spoken(target, words, found, span));
    }
    return said;
  }

  function colour(words, values, span) {
    words.forEach((word, i) => {
      const share = Math.max(-1, Math.min(1, values[i] / span));
      const whole = Math.max(1, Math.round(Math.abs(share) * data.steps));
      const name = share === 0 ? "p0" : (share < 0 ? "n" : "p") + whole;
      const beyond = Math.abs(values[i]) > span * 1.000001 ? " beyond" : "";
      word.className = word.was.replace(/ [pn]\d+| beyond/g, "") + " " + name + beyond;
      word.title = `${word.textContent}: ${number(values[i], span)}`;
    });
  }

  function scale(target, values, span) {
    const [low, bar, high] = target.legend.children;
    target.legend.hidden = false;
    target.note?.classList.add("stale");
    const signed = Math.min(...values) < -1e-6 * span;
    low.textContent = signed ? `against ${number(-span, span)}` : "0";
    high.textContent = `${number(span, span)} for`;
    bar.classList.toggle("signed", signed);
    bar.classList.toggle("warm", !signed);
  }

  function spoken(target, words, found, span) {
    const order = found.values.map((v, i) => [v, i]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const best = order.slice(0, 3).filter(([v]) => v).map(([v, i]) => {
      const name = target.grid
        ? `row ${Math.floor(i / target.grid[1]) + 1}, column ${i % target.grid[1] + 1}`
        : words[i].textContent;
      return `${name} ${number(v, span)}`;
    });
    return `${target.name}: ${best.join("; ") || "nothing"}.`;
  }

  function mark(choice) {
    const panel = panels[choice.panel];
    if (!panel.grid) {
      (choice.asks ? panel.asks : panel.words)[choice.item].classList.add("chosen");
      return;
    }
    for (const stage of panel.stages) {
      const [x, y, wide, high] = box(panel, stage, choice.item);
      const frame = stage.querySelector(".frame");
      Object.assign(frame.style, {left: x + "%", top: y + "%", width: wide + "%", height: high + "%"});
      frame.hidden = false;
    }
  }

  function restore() {
    for (const panel of panels) {
      for (const word of new Set([...panel.words, ...panel.asks])) {
        word.className = word.was;
        word.title = word.had;
      }
      for (const stage of panel.stages) {
        stage.querySelector("canvas").hidden = true;
        stage.querySelector(".frame").hidden = true;
      }
      for (const changed of [...Object.values(panel.shows), panel.legend]) {
        changed?.replaceChildren(...changed.were.map((node) => node.cloneNode(true)));
        changed?.classList.remove("linked-now");
      }
      panel.legend.hidden = panel.silent;
      panel.note?.classList.remove("stale");
    }
  }

  // -- pictures: as overlay.py paints them -----------------------------------------------------

  function covered(panel, width, height) {
    const whole = (pixels, n) => pixels >= n ? Math.floor(pixels / n) * n : pixels;
    return [whole(width, panel.grid[1]), whole(height, panel.grid[0])];
  }

  function box(panel, stage, item) {
    const {naturalWidth: width, naturalHeight: height} = stage.querySelector("img");
    const [right, bottom] = covered(panel, width, height);
    const [rows, columns] = panel.grid;
    const wide = 100 * right / width / columns, high = 100 * bottom / height / rows;
    return [item % columns * wide, Math.floor(item / columns) * high, wide, high];
  }

  // For each pixel the two patches that it lies between, and how far it is from the first.
  function between(pixels, patches) {
    return Array.from({length: pixels}, (_, i) => {
      const at = Math.max(0, (i + 0.5) * patches / pixels - 0.5), low = Math.min(Math.floor(at), patches - 1);
      return [low, Math.min(low + 1, patches - 1), at - low];
    });
  }

  function paint(panel, values, span) {
    const shares = values.map((v) => Math.max(-1, Math.min(1, v / span)));
    for (const stage of panel.stages) {
      const overlay = stage.dataset.paint === "overlay";
      const image = overlay ? panel.seen : stage.querySelector("img");
      const canvas = stage.querySelector("canvas");
      const width = canvas.width = image.naturalWidth, height = canvas.height = image.naturalHeight;
      if (!width) continue;
      const context = canvas.getContext("2d", {willReadFrequently: true});
      context.drawImage(image, 0, 0);
      const picture = context.getImageData(0, 0, width, height);
      (overlay ? smooth : exact)(panel, shares, picture);
      context.putImageData(picture, 0, 0);
      canvas.hidden = false;
    }
  }

  function smooth(panel, shares, {data: dots, width, height}) {
    const [rows, columns] = panel.grid, [right, bottom] = covered(panel, width, height);
    const down = between(bottom, rows), across = between(right, columns);
    const [dark, bright] = data.grey;
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
      let share = 0;
      if (y < bottom && x < right) {
        const [top, under, v] = down[y], [left, beside, u] = across[x];
        const line = (row) => shares[row * columns + left] * (1 - u) + shares[row * columns + beside] * u;
        share = line(top) * (1 - v) + line(under) * v;
      }
      const i = 4 * (y * width + x), cover = data.cover * Math.abs(share);
      const luma = 0.2126 * dots[i] + 0.7152 * dots[i + 1] + 0.0722 * dots[i + 2];
      const grey = 255 * dark + (bright - dark) * luma, end = share < 0 ? rgb[0] : rgb[rgb.length - 1];
      for (let c = 0; c < 3; c++) dots[i + c] = grey * (1 - cover) + end[c] * cover;
    }
  }

  function exact(panel, shares, {data: dots, width, height}) {
    const [rows, columns] = panel.grid, [right, bottom] = covered(panel, width, height);
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
      const inside = y < bottom && x < right;
      const patch = Math.floor(y * rows / bottom) * columns + Math.floor(x * columns / right);
      const share = inside ? shares[patch] : 0;
      const end = rgb[Math.round((share + 1) * data.steps)], i = 4 * (y * width + x);
      for (let c = 0; c < 3; c++) dots[i + c] = end[c];
    }
  }

  // -- choosing: pointer, keyboard, and pressing to keep ---------------------------------------

  const same = (a, b) => a && b && ["panel", "item", "asks"].every((k) => a[k] === b[k]);
  const touches = (i, key) => data.maps.some((m) => m[key] === i);

  function focused(choice) {
    const said = show(choice);
    const name = named(choice).map((part) => part.textContent ?? part).join("");
    live.textContent = said.length ? `${name}. ${said.join(" ")}` : name;
  }

  function press(choice) {
    pinned = same(pinned, choice) ? null : choice;
    focused(choice);
    find("[aria-pressed=true]").forEach((word) => word.setAttribute("aria-pressed", "false"));
    return pinned !== null;
  }

  function release() {
    pinned = null;
    find("[aria-pressed=true]").forEach((word) => word.setAttribute("aria-pressed", "false"));
    show(null);
    live.textContent = "Relevance for the answer.";
  }

  function words(list, choices) {
    const rtl = () => getComputedStyle(list[0].parentElement).direction === "rtl";
    const go = (to) => {
      list.forEach((word, i) => word.tabIndex = i === to ? 0 : -1);
      list[to].focus();
    };
    list.forEach((word, item) => {
      const choice = {...choices, item};
      word.setAttribute("role", "button");
      word.setAttribute("aria-pressed", "false");
      word.setAttribute("aria-label", word.had || word.textContent);
      word.tabIndex = item ? -1 : 0;
      word.addEventListener("pointerenter", () => show(choice));
      word.addEventListener("pointerleave", () => show(pinned));
      word.addEventListener("focus", () => focused(choice));
      word.addEventListener("blur", () => show(pinned));
      const toggle = () => word.setAttribute("aria-pressed", String(press(choice)));
      word.addEventListener("click", toggle);
      word.addEventListener("keydown", (event) => {
        const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1};
        const turn = rtl() && event.key.match(/Right|Left/) ? -1 : 1;
        if (event.key in steps) go((item + turn * steps[event.key] + list.length) % list.length);
        else if (event.key === "Home") go(0);
        else if (event.key === "End") go(list.length - 1);
        else if (event.key === "Enter" || event.key === " ") toggle();
        else return;
        event.preventDefault();
      });
    });
  }

  function patches(panel) {
    const [rows, columns] = panel.grid;
    const made = (item) => ({panel: panel.i, item, asks: true, answers: true});
    let at = panel.start;
    panel.stages.forEach((stage, nth) => {
      const image = stage.querySelector("img");
      const under = (event) => {
        const place = image.getBoundingClientRect();
        const [right, bottom] = covered(panel, image.naturalWidth, image.naturalHeight);
        const x = Math.floor((event.clientX - place.left) / place.width * image.naturalWidth / right * columns);
        const y = Math.floor((event.clientY - place.top) / place.height * image.naturalHeight / bottom * rows);
        return x >= 0 && y >= 0 && x < columns && y < rows ? y * columns + x : null;
      };
      let last = null;
      stage.addEventListener("pointermove", (event) => {
        const item = under(event);
        if (item !== last) show(item === null ? pinned : made(item));
        last = item;
      });
      stage.addEventListener("pointerleave", () => { last = null; show(pinned); });
      stage.addEventListener("click", (event) => {
        const item = under(event);
        if (item !== null) press(made(at = item));
      });
      if (nth) return; // one way in is enough for the keyboard
      stage.tabIndex = 0;
      stage.setAttribute("role", "application");
      stage.setAttribute("aria-label",
        `${panel.name}: ${rows} rows of ${columns} patches; the arrow keys choose one`);
      stage.addEventListener("focus", () => { if (stage.matches(":focus-visible")) focused(made(at)); });
      stage.addEventListener("blur", () => show(pinned));
      stage.addEventListener("keydown", (event) => {
        const row = Math.floor(at / columns), column = at % columns;
        const to = {
          ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1],
          ArrowDown: [row + 1, column], ArrowUp: [row - 1, column],
          Home: [row, 0], End: [row, columns - 1],
        }[event.key];
        if (event.key === "Enter" || event.key === " ") press(made(at));
        else if (to) {
          at = (to[0] + rows) % rows * columns + (to[1] + columns) % columns;
          focused(made(at));
        } else return;
        event.preventDefault();
      });
    });
  }

  for (const panel of panels) {
    for (const word of new Set([...panel.words, ...panel.asks])) {
      word.was = word.className;
      word.had = word.title;
    }
    for (const changed of [...Object.values(panel.shows), panel.legend]) {
      if (changed) changed.were = [...changed.childNodes].map((node) => node.cloneNode(true));
    }
    for (const stage of panel.stages) {
      stage.append(document.createElement("canvas"), element("span", ""));
      stage.lastChild.className = "frame";
    }
    const asks = touches(panel.i, "asking"), answers = touches(panel.i, "answering");
    if (panel.grid && (asks || answers)) patches(panel);
    else if (panel.ownWords && (asks || answers)) words(panel.words, {panel: panel.i, asks: true, answers: true});
    else {
      if (asks) words(panel.asks, {panel: panel.i, asks: true, answers: false});
      if (answers) words(panel.words, {panel: panel.i, asks: false, answers: true});
    }
  }
  card.addEventListener("keydown", (event) => { if (event.key === "Escape") release(); });
  card.querySelector(".hint").hidden = false;
  restore();
}

for (const card of document.querySelectorAll(".whyformer .links-inside:not([data-ready])")) {
  card.dataset.ready = "";
  link(card);
}
})();

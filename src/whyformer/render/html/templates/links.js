// A word, sentence or patch that is pointed at, focused or pressed shows its relevance in the other
// streams.

const LONGEST_NAME = 70; // characters

function bytesIn(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes.buffer;
}

// The sums of some rows, and of some columns; a map is unpacked when it is first used.
function unpackedMap({asking, answering, columns, scales, values}, levels) {
  let units = null, steps = null;
  function unpack() {
    if (units) return;
    units = new Float64Array(bytesIn(scales)).map((scale) => scale / levels);
    steps = new Int16Array(bytesIn(values));
  }
  return {
    asking, answering,
    rows(chosen) {
      unpack();
      const sums = Array(columns).fill(0);
      for (const row of chosen) {
        for (let j = 0, i = row * columns; j < columns; j++, i++) sums[j] += steps[i] * units[row];
      }
      return sums;
    },
    columns(chosen) {
      unpack();
      return Array.from(units, (unit, row) =>
        chosen.reduce((sum, column) => sum + steps[row * columns + column] * unit, 0));
    },
  };
}

function link(card) {
  const data = JSON.parse(card.querySelector("script.links").textContent);
  const live = card.querySelector(".live");
  const find = (selector) => [...card.querySelectorAll(selector)];
  const maps = data.maps.map((map) => unpackedMap(map, data.levels));
  let pinned = null;

  const panels = data.panels.map((panel, i) => {
    const area = card.querySelector(`[data-panel="${i}"]`), box = area.querySelector(".long");
    const words = find(`[data-panel="${i}"] .words .word`);
    const outputWords = find(`[data-said="${i}"] .word`);
    const seen = card.querySelector(`[data-panel="${i}"] [data-seen] img`);
    const stages = find(`[data-panel="${i}"] [data-paint]`);
    return {
      ...panel, i, words, stages, area,
      long: box && longText(box),
      painters: stages.map((stage) => painterOf(stage, data, panel.grid, seen)),
      asks: outputWords.length ? outputWords : words,
      asksArea: card.querySelector(`[data-said="${i}"]`) ?? area,
      ownWords: !outputWords.length,
      bySentence: false,
      shows: {words: area.querySelector(".shows"),
              said: card.querySelector(`[data-said="${i}"] .shows`)},
      legend: area.querySelector(".legend"),
      note: area.querySelector(".note"),
    };
  });

  // -- what is known about a choice ----------------------------------------------------------

  // The items that are chosen together: a sentence, a part of an answer, or one item.
  function group(choice) {
    const panel = panels[choice.panel];
    if (choice.sentence) return range(choice.sentence.from, choice.sentence.to);
    if (!choice.asks || !panel.rows) return [choice.item];
    if (panel.bySentence) {
      const [from, to] = panel.answerSentences.find(([, end]) => choice.item < end);
      return range(from, to);
    }
    const own = panel.rows[choice.item];
    return own === null ? [choice.item] : panel.rows.flatMap((row, i) => row === own ? [i] : []);
  }

  const range = (from, to) => Array.from({length: to - from}, (_, i) => from + i);
  const rowsOf = (choice) => {
    const {rows} = panels[choice.panel], items = group(choice);
    return rows ? [...new Set(items.map((i) => rows[i]))].filter((row) => row !== null) : items;
  };

  function relevance(choice, target) {
    const mapOf = (asking, answering) =>
      maps.find((m) => m.asking === asking && m.answering === answering);
    const row = choice.asks && mapOf(choice.panel, target.i);
    if (row) return {row: true, values: row.rows(rowsOf(choice))};
    const column = choice.answers && mapOf(target.i, choice.panel);
    if (!column) return null;
    const values = column.columns(group(choice));
    return {row: false, values: target.rows ? target.rows.map((r) => r === null ? 0 : values[r]) : values};
  }

  function nameOf(choice) {
    const panel = panels[choice.panel];
    if (panel.grid) return [element("span", "patch " + patchName(choice.item, panel.grid[1]))];
    const words = choice.asks ? panel.asks : panel.words;
    const name = group(choice).map((i) => words[i].textContent).join(" ");
    return quoted(name.length > LONGEST_NAME ? name.slice(0, LONGEST_NAME) + "\u2026" : name);
  }

  function probabilityOf(choice) {
    const known = choice.asks && panels[choice.panel].probabilities;
    if (!known || group(choice).length > 1 || known[choice.item] === null) return "";
    return `probability ${percentText(known[choice.item])}`;
  }

  // -- showing it ----------------------------------------------------------------------------

  function show(choice) {
    if (!choice) {
      restore(() => false);
      return [];
    }
    const found = new Map(panels.map((target) => [target, relevance(choice, target)]));
    restore((target, row) => found.get(target)?.row === row);
    const summaries = [];
    for (const [target, one] of found) {
      if (!one) continue;
      const words = one.row ? target.words : target.asks;
      const own = target.grid ? one.values : one.values.filter((_, i) => !words[i].special);
      const span = largest(own) || largest(one.values) || 1;
      target.painters.forEach((painter) => painter.show(one.values, span));
      if (target.long && one.row) target.long.show(one.values, span, data.steps);
      else if (!target.grid) colour(target, words, one.values, span);
      const shows = !one.row && target.shows.said || target.shows.words;
      shows.replaceChildren(...(one.row
        ? ["relevance for ", ...nameOf(choice)]
        : ["relevance of ", ...nameOf(choice), ` for each of these ${target.unit}`]),
        largest(one.values) ? `, full colour at ${number(span)}` : ": all 0");
      shows.classList.add("linked-now");
      if (shows === target.shows.words) {
        legendShows(target.legend, signedIn(one.values, span), span);
        target.note?.classList.add("stale");
      }
      summaries.push(summaryOf(target, words, one, span));
    }
    mark(choice);
    return summaries;
  }

  function colour(target, words, values, span) {
    const chances = words === target.asks ? target.probabilities : null;
    words.forEach((word, i) => {
      paintWord(word, colourClass(values[i], span, data.steps));
      const chance = chances && chances[i] !== null ? `, probability ${percentText(chances[i])}` : "";
      word.title = `${word.textContent}: ${number(values[i], span)}${chance}`;
    });
  }

  function summaryOf(target, words, found, span) {
    const order = strongest(found.values, 3).map((i) => [found.values[i], i]);
    const best = order.filter(([v]) => v).map(([v, i]) => {
      const name = target.grid ? patchName(i, target.grid[1]) : words[i].textContent;
      return `${name} ${number(v, span)}`;
    });
    return `${target.name}: ${best.join("; ") || "nothing"}.`;
  }

  let marked = [];

  function mark(choice) {
    const panel = panels[choice.panel], chance = probabilityOf(choice);
    if (panel.grid) panel.painters.forEach((painter) => painter.mark(choice.item));
    else {
      const words = choice.asks ? panel.asks : panel.words;
      marked = choice.sentence ? [choice.sentence.head] : group(choice).map((i) => words[i]);
      marked.forEach((word) => word.classList.add("chosen"));
    }
    if (!chance) return;
    if (!panel.shows.said) panel.shows.words.append(`, ${chance}`);
    else panel.shows.said.replaceChildren(...nameOf(choice), `: ${chance}`);
  }

  // Back to the whole answer, but for what `repaints(panel, row)` says is painted again at once.
  function restore(repaints) {
    marked.forEach((word) => word.classList.remove("chosen"));
    marked = [];
    for (const panel of panels) {
      if (panel.long) {
        if (!repaints(panel, true)) panel.long.show(null);
      } else if (!repaints(panel, true)) panel.words.forEach(unpaint);
      if (!panel.ownWords && !repaints(panel, false)) panel.asks.forEach(unpaint);
      for (const painter of panel.painters) {
        if (!repaints(panel, true) && !repaints(panel, false)) painter.show(null);
        painter.mark(null);
      }
      for (const changed of [...Object.values(panel.shows), panel.legend]) {
        if (!changed?.were) continue;
        changed.replaceChildren(...changed.were.map((node) => node.cloneNode(true)));
        changed.classList.remove("linked-now");
      }
      panel.legend.hidden = panel.silent;
      panel.note?.classList.remove("stale");
    }
  }

  function unpaint(word) {
    paintWord(word, null);
    if (word.title !== word.had) word.title = word.had;
  }

  // -- choosing ------------------------------------------------------------------------------

  const same = (a, b) => a && b && ["panel", "item", "asks", "sentence"].every((k) => a[k] === b[k]);
  const touches = (i, key) => data.maps.some((m) => m[key] === i);

  function focused(choice) {
    const summaries = show(choice);
    const name = nameOf(choice).map((part) => part.textContent ?? part).join("");
    const known = [name, probabilityOf(choice)].filter(Boolean).join(", ");
    live.textContent = summaries.length ? `${known}. ${summaries.join(" ")}` : known;
  }

  function press(choice) {
    pinned = same(pinned, choice) ? null : choice;
    focused(choice);
    unpress(card);
    if (pinned) panels.forEach((panel) => relevance(choice, panel) && panel.long?.revealStrongest());
    return pinned !== null;
  }

  function chooser(choices) {
    const made = (item) => ({...choices, item});
    return {
      show: (item) => show(item === null ? pinned : made(item)),
      focus: (item) => focused(made(item)),
      press: (item) => press(made(item)),
    };
  }

  function release() {
    pinned = null;
    unpress(card);
    show(null);
    live.textContent = "Relevance for the answer.";
  }

  function point(words, choices, area, long) {
    if (!long) words.forEach((word) => word.setAttribute("aria-label", word.had || word.textContent));
    pointTokens(words, chooser(choices), area);
  }

  // The head of a folded sentence stands for all of its words.
  function pointSentences(panel) {
    for (const sentence of panel.long.sentences) {
      const choice = {panel: panel.i, item: sentence.from, asks: false, answers: true, sentence};
      sentence.head.addEventListener("pointerenter", () => show(choice));
      sentence.head.addEventListener("pointerleave", () => show(pinned));
    }
  }

  // Words, or whole sentences of the answer.
  function addLevels(panel) {
    if (!panel.answerSentences || panel.inParts || panel.answerSentences.length < 2) return;
    const line = panel.asks[0].closest(".words");
    line.before(choices("point at", ["words", "sentences"], 0, (level) => {
      panel.bySentence = level === 1;
      release();
    }));
  }

  for (const panel of panels) {
    for (const word of new Set([...panel.words, ...panel.asks])) {
      word.was ??= word.className;
      word.had ??= word.title;
      word.special = word.classList.contains("special");
    }
    for (const changed of [...Object.values(panel.shows), panel.legend]) {
      if (!changed) continue;
      changed.were = [...changed.childNodes].map((node) => node.cloneNode(true));
    }
    const asks = touches(panel.i, "asking"), answers = touches(panel.i, "answering");
    const both = {panel: panel.i, asks: true, answers: true};
    if (panel.grid && (asks || answers)) {
      panel.stages.forEach((stage, nth) => pointPatches(
        stage, panel.painters[nth], panel.grid, panel.start, nth ? "" : panel.name, chooser(both)));
    } else if (panel.ownWords && (asks || answers)) point(panel.words, both, panel.area, panel.long);
    else {
      if (asks) point(panel.asks, {panel: panel.i, asks: true, answers: false}, panel.asksArea);
      if (answers) {
        point(panel.words, {panel: panel.i, asks: false, answers: true}, panel.area, panel.long);
      }
    }
    if (panel.long && answers) pointSentences(panel);
    if (asks) addLevels(panel);
  }
  card.addEventListener("keydown", (event) => { if (event.key === "Escape") release(); });
  const hint = card.querySelector(".hint");
  hint.textContent = hint.dataset.text;
  hint.hidden = false;
  show(null);
}

for (const card of document.querySelectorAll(".whyformer .links-inside:not([data-ready])")) {
  card.dataset.ready = "";
  link(card);
}

// A word or patch that is pointed at, focused or pressed shows its relevance in the other streams.

function link(card) {
  const data = JSON.parse(card.querySelector("script.links").textContent);
  const live = card.querySelector(".live");
  const find = (selector) => [...card.querySelectorAll(selector)];
  let pinned = null;

  const panels = data.panels.map((panel, i) => {
    const words = find(`[data-panel="${i}"] .words .word`);
    const outputWords = find(`[data-said="${i}"] .word`);
    const seen = card.querySelector(`[data-panel="${i}"] [data-seen] img`);
    const stages = find(`[data-panel="${i}"] [data-paint]`);
    return {
      ...panel, i, words, stages,
      painters: stages.map((stage) => painterOf(stage, data, panel.grid, seen)),
      asks: outputWords.length ? outputWords : words,
      ownWords: !outputWords.length,
      shows: {words: card.querySelector(`[data-panel="${i}"] .shows`),
              said: card.querySelector(`[data-said="${i}"] .shows`)},
      legend: card.querySelector(`[data-panel="${i}"] .legend`),
      note: card.querySelector(`[data-panel="${i}"] .note`),
    };
  });

  // -- what is known about a choice ----------------------------------------------------------

  function relevance(choice, target) {
    const mapOf = (asking, answering) =>
      data.maps.find((m) => m.asking === asking && m.answering === answering);
    const row = choice.asks && mapOf(choice.panel, target.i);
    if (row && (choice.panel !== target.i || !target.ownWords)) {
      return {row: true, values: row.rows[choice.item].map((v) => v * row.units[choice.item])};
    }
    const column = choice.answers && mapOf(target.i, choice.panel);
    if (column && (choice.panel !== target.i || !target.ownWords)) {
      return {row: false, values: column.rows.map((r, p) => r[choice.item] * column.units[p])};
    }
    return null;
  }

  function nameOf(choice) {
    const panel = panels[choice.panel];
    if (panel.grid) return [element("span", "patch " + patchName(choice.item, panel.grid[1]))];
    return quoted((choice.asks ? panel.asks : panel.words)[choice.item].textContent);
  }

  // -- showing it ----------------------------------------------------------------------------

  function show(choice) {
    restore();
    if (!choice) return [];
    mark(choice);
    const summaries = [];
    for (const target of panels) {
      const found = relevance(choice, target);
      if (!found) continue;
      const words = found.row ? target.words : target.asks;
      const own = found.values.filter((_, i) => !words[i]?.classList.contains("special"));
      const span = largest(own) || largest(found.values) || 1;
      target.painters.forEach((painter) => painter.show(found.values, span));
      if (!target.grid) colour(words, found.values, span);
      const shows = !found.row && target.shows.said || target.shows.words;
      shows.replaceChildren(...(found.row
        ? ["relevance for ", ...nameOf(choice)]
        : ["relevance of ", ...nameOf(choice), ` for each of these ${target.unit}`]),
        largest(found.values) ? `, full colour at ${number(span)}` : ": all 0");
      shows.classList.add("linked-now");
      if (shows === target.shows.words) {
        legendShows(target.legend, signedIn(found.values, span), span);
        target.note?.classList.add("stale");
      }
      summaries.push(summaryOf(target, words, found, span));
    }
    return summaries;
  }

  function colour(words, values, span) {
    words.forEach((word, i) => {
      word.className = word.was.replace(/ [pn]\d+| beyond/g, "") + " "
        + colourClass(values[i], span, data.steps);
      word.title = `${word.textContent}: ${number(values[i], span)}`;
    });
  }

  function summaryOf(target, words, found, span) {
    const order = found.values.map((v, i) => [v, i]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const best = order.slice(0, 3).filter(([v]) => v).map(([v, i]) => {
      const name = target.grid ? patchName(i, target.grid[1]) : words[i].textContent;
      return `${name} ${number(v, span)}`;
    });
    return `${target.name}: ${best.join("; ") || "nothing"}.`;
  }

  function mark(choice) {
    const panel = panels[choice.panel];
    if (panel.grid) panel.painters.forEach((painter) => painter.mark(choice.item));
    else (choice.asks ? panel.asks : panel.words)[choice.item].classList.add("chosen");
  }

  function restore() {
    for (const panel of panels) {
      for (const word of new Set([...panel.words, ...panel.asks])) {
        word.className = word.was;
        word.title = word.had;
      }
      for (const painter of panel.painters) {
        painter.show(null);
        painter.mark(null);
      }
      for (const changed of [...Object.values(panel.shows), panel.legend]) {
        changed?.replaceChildren(...changed.were.map((node) => node.cloneNode(true)));
        changed?.classList.remove("linked-now");
      }
      panel.legend.hidden = panel.silent;
      panel.note?.classList.remove("stale");
    }
  }

  // -- choosing ------------------------------------------------------------------------------

  const same = (a, b) => a && b && ["panel", "item", "asks"].every((k) => a[k] === b[k]);
  const touches = (i, key) => data.maps.some((m) => m[key] === i);

  function focused(choice) {
    const summaries = show(choice);
    const name = nameOf(choice).map((part) => part.textContent ?? part).join("");
    live.textContent = summaries.length ? `${name}. ${summaries.join(" ")}` : name;
  }

  function chooser(choices) {
    const made = (item) => ({...choices, item});
    return {
      show: (item) => show(item === null ? pinned : made(item)),
      focus: (item) => focused(made(item)),
      press(item) {
        pinned = same(pinned, made(item)) ? null : made(item);
        focused(made(item));
        unpress(card);
        return pinned !== null;
      },
    };
  }

  function release() {
    pinned = null;
    unpress(card);
    show(null);
    live.textContent = "Relevance for the answer.";
  }

  function point(words, choices) {
    words.forEach((word) => word.setAttribute("aria-label", word.had || word.textContent));
    pointTokens(words, chooser(choices));
  }

  for (const panel of panels) {
    for (const word of new Set([...panel.words, ...panel.asks])) {
      word.was = word.className;
      word.had = word.title;
    }
    for (const changed of [...Object.values(panel.shows), panel.legend]) {
      if (changed) changed.were = [...changed.childNodes].map((node) => node.cloneNode(true));
    }
    const asks = touches(panel.i, "asking"), answers = touches(panel.i, "answering");
    const both = {panel: panel.i, asks: true, answers: true};
    if (panel.grid && (asks || answers)) {
      panel.stages.forEach((stage, nth) => pointPatches(
        stage, panel.painters[nth], panel.grid, panel.start, nth ? "" : panel.name, chooser(both)));
    } else if (panel.ownWords && (asks || answers)) point(panel.words, both);
    else {
      if (asks) point(panel.asks, {panel: panel.i, asks: true, answers: false});
      if (answers) point(panel.words, {panel: panel.i, asks: false, answers: true});
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

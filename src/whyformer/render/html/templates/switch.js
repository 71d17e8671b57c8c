// A comparison: choose which explanation of the input to show, by target or by method.

function setUpComparison(card) {
  const data = JSON.parse(card.querySelector("script.compared").textContent);
  const area = card.querySelector(".switch"), live = area.querySelector("[role=status]");
  const several = new Set(data.readings.map(({label}) => label)).size > 1;
  const answer = area.querySelector(".answer");

  const panels = data.panels.map((panel, i) => {
    const block = area.querySelector(`[data-panel="${i}"]`);
    const shown = {...panel, legend: block.querySelector(".legend"), words: [...block.querySelectorAll(".word")]};
    shown.words.forEach((word) => { word.was = word.className.replace(" p0", ""); });
    if (panel.grid) {
      const stage = block.querySelector(".stage"), seen = card.querySelector(`[data-seen="${i}"] img`);
      stage.dataset.paint = seen ? "overlay" : "patches";
      shown.painter = painterOf(stage, data, panel.grid, seen);
      if (seen) {
        const copy = element("img");
        Object.assign(copy, {src: seen.src, alt: ""});
        stage.prepend(copy);
        seen.decode().then(() => shown.painter.paint());
        block.querySelector("figure").append(slider("opacity", data.cover, (cover) => {
          shown.painter.cover = cover;
          shown.painter.paint();
        }));
      } else stage.classList.add("bare");
    }
    return shown;
  });

  function show(chosen) {
    const {label, output, chance, method, accounted} = data.readings[chosen];
    const why = ["Why ", element("strong", label), "? "];
    answer.replaceChildren(...(several ? why : []), `Output ${output}${chance && `, probability ${chance}`}, by ${method}. ${accounted}`);
    for (const panel of panels) {
      const values = panel.values[chosen].map((v) => v * panel.units[chosen]), span = panel.spans[chosen];
      panel.painter?.show(values, span);
      panel.words.forEach((word, i) => {
        word.className = `${word.was} ${colourClass(values[i], span, data.steps)}`;
        word.title = `${word.textContent}: ${number(values[i], span)}`;
      });
      legendShows(panel.legend, panel.signed[chosen], span);
    }
    live.textContent = data.choices[chosen];
  }

  if (data.choices.length > 1) {
    area.prepend(choices(several ? "why" : "by", data.choices, 0, show));
  }
  area.hidden = false;
  show(0);
}

for (const card of document.querySelectorAll(".whyformer .comparison")) setUpComparison(card);

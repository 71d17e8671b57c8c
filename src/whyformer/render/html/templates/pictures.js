// A slider for the opacity of each overlay.

for (const card of document.querySelectorAll(".whyformer .card")) {
  const source = card.querySelector("script.painting");
  if (!source) continue;
  const data = JSON.parse(source.textContent);
  for (const {panel, grid, shares} of data.pictures) {
    const area = card.querySelector(`[data-panel="${panel}"]`);
    const stage = area.querySelector("[data-paint=overlay]");
    const painter = painterOf(stage, data, grid, area.querySelector("[data-seen] img"));
    stage.closest("figure").append(slider("opacity", painter.cover, (cover) => {
      painter.cover = cover;
      painter.base = shares;
      painter.paint();
    }));
  }
}

// Tokens and patches that can be pointed at, reached by keyboard, and pressed to keep them.
// `on.show(item)` is called with null when nothing is pointed at any more; `on.press(item)` returns
// whether the item is kept.

const STEPS_OF_KEYS = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1};

// `area` holds all tokens of the list: it listens for them, because a list may have thousands.
function pointTokens(list, on, area) {
  const places = new Map(list.map((token, item) => [token, item]));
  const tokenOf = (event) => {
    const token = event.target.closest?.(".word");
    return places.has(token) ? token : null;
  };
  const rtl = (token) => getComputedStyle(token.parentElement).direction === "rtl";
  let stop = 0, last = null;
  const go = (to) => {
    list[stop].tabIndex = -1;
    list[stop = to].tabIndex = 0;
    list[to].focus();
  };
  list.forEach((token, item) => {
    token.setAttribute("role", "button");
    token.setAttribute("aria-pressed", "false");
    token.tabIndex = item ? -1 : 0;
  });
  const toggle = (token) => token.setAttribute("aria-pressed", String(on.press(places.get(token))));
  area.addEventListener("pointerover", (event) => {
    const token = tokenOf(event);
    if (token === last) return;
    last = token;
    on.show(token ? places.get(token) : null);
  });
  area.addEventListener("pointerleave", () => { if (last) { last = null; on.show(null); } });
  area.addEventListener("focusin", (event) => {
    const token = tokenOf(event);
    if (token) on.focus(places.get(token));
  });
  area.addEventListener("focusout", (event) => { if (tokenOf(event)) on.show(null); });
  area.addEventListener("click", (event) => { if (tokenOf(event)) toggle(tokenOf(event)); });
  area.addEventListener("keydown", (event) => {
    const token = tokenOf(event), item = places.get(token);
    if (!token) return;
    const turn = event.key.match(/Right|Left/) && rtl(token) ? -1 : 1;
    const step = STEPS_OF_KEYS[event.key];
    if (step) go((item + turn * step + list.length) % list.length);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(list.length - 1);
    else if (event.key === "Enter" || event.key === " ") toggle(token);
    else return;
    event.preventDefault();
  });
}

function pointPatches(stage, painter, [rows, columns], start, name, on) {
  let at = start, last = null;
  stage.addEventListener("pointermove", (event) => {
    const item = painter.under(event);
    if (item !== last) on.show(item);
    last = item;
  });
  stage.addEventListener("pointerleave", () => { last = null; on.show(null); });
  stage.addEventListener("click", (event) => {
    const item = painter.under(event);
    if (item !== null) on.press(at = item);
  });
  if (!name) return; // the keyboard needs only one of the pictures
  stage.tabIndex = 0;
  stage.setAttribute("role", "application");
  stage.setAttribute("aria-label",
    `${name}: ${rows} rows of ${columns} patches; the arrow keys choose one`);
  stage.addEventListener("focus", () => { if (stage.matches(":focus-visible")) on.focus(at); });
  stage.addEventListener("blur", () => on.show(null));
  stage.addEventListener("keydown", (event) => {
    const row = Math.floor(at / columns), column = at % columns;
    const to = {
      ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1],
      ArrowDown: [row + 1, column], ArrowUp: [row - 1, column],
      Home: [row, 0], End: [row, columns - 1],
    }[event.key];
    if (event.key === "Enter" || event.key === " ") on.press(at);
    else if (to) {
      at = (to[0] + rows) % rows * columns + (to[1] + columns) % columns;
      on.focus(at);
    } else return;
    event.preventDefault();
  });
}

const unpress = (area) => area.querySelectorAll("[aria-pressed=true]")
  .forEach((token) => token.setAttribute("aria-pressed", "false"));

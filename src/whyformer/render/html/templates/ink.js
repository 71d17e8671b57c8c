// Numbers and colours, the same as in numbers.py, colours.py and overlay.py.

const largest = (values) => values.reduce((most, v) => Math.max(most, Math.abs(v)), 0);

// The places of the values with the largest size, largest first.
function strongest(values, count) {
  const found = [];
  values.forEach((value, i) => {
    const size = Math.abs(value);
    if (found.length === count && size <= Math.abs(values[found.at(-1)])) return;
    let at = found.length;
    while (at && Math.abs(values[found[at - 1]]) < size) at--;
    found.splice(at, 0, i);
    found.length = Math.min(found.length, count);
  });
  return found;
}

// The same as `number` in numbers.py: as many places as three digits of the span need.
function number(value, span) {
  const size = Math.abs(span || value);
  let text = size >= 1e-4 && size < 1e6
    ? Math.abs(value).toFixed(Math.max(0, 2 - Math.floor(Math.log10(size))))
    : Math.abs(value).toExponential(2).replace("-", "\u2212");
  if (!/[1-9]/.test(text)) return value ? text : "0";
  return (value < 0 ? "\u2212" : "+") + text;
}

// A probability in whole per cent; 0 and 100 only if it is exactly that.
function percentText(share) {
  const text = share > 0 && share < 0.005 ? "< 1" : share < 1 && share > 0.995 ? "> 99" : Math.round(100 * share);
  return `${text} %`;
}

function element(tag, text = "", kind = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

const quoted = (text) => ["\u201c", element("bdi", text), "\u201d"];
const patchName = (item, columns) =>
  `row ${Math.floor(item / columns) + 1}, column ${item % columns + 1}`;
const limited = (share) => Math.max(-1, Math.min(1, share));

// The class of a score's colour, and "beyond" if the score is off the scale.
function colourClass(value, span, steps) {
  const share = limited(value / span);
  const whole = Math.max(1, Math.round(Math.abs(share) * steps));
  const name = share === 0 ? "p0" : (share < 0 ? "n" : "p") + whole;
  return name + (Math.abs(value) > span * 1.000001 ? " beyond" : "");
}

const signedIn = (values, span) => values.some((v) => v < -1e-6 * span);

function legendShows(legend, signed, span) {
  const [low, bar, high] = legend.children;
  legend.hidden = false;
  low.textContent = signed ? `against ${number(-span, span)}` : "0";
  high.textContent = `${number(span, span)} for`;
  bar.classList.toggle("signed", signed);
  bar.classList.toggle("warm", !signed);
}

// -- pictures ----------------------------------------------------------------------------------

const parsed = (palette) =>
  palette.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));

function covered([rows, columns], width, height) {
  const whole = (pixels, n) => pixels >= n ? Math.floor(pixels / n) * n : pixels;
  return [whole(width, columns), whole(height, rows)];
}

// For each pixel the two patches that it lies between, and how far it is from the first.
function between(pixels, patches) {
  return Array.from({length: pixels}, (_, i) => {
    const at = Math.max(0, (i + 0.5) * patches / pixels - 0.5);
    const low = Math.min(Math.floor(at), patches - 1);
    return [low, Math.min(low + 1, patches - 1), at - low];
  });
}

function smooth(grid, shares, ink, cover, {data: dots, width, height}) {
  const [rows, columns] = grid, [right, bottom] = covered(grid, width, height);
  const down = between(bottom, rows), across = between(right, columns);
  const [dark, bright] = ink.grey, rgb = parsed([ink.palette[0], ink.palette.at(-1)]);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    let share = 0;
    if (y < bottom && x < right) {
      const [top, under, v] = down[y], [left, beside, u] = across[x];
      const line = (row) => shares[row * columns + left] * (1 - u) + shares[row * columns + beside] * u;
      share = line(top) * (1 - v) + line(under) * v;
    }
    const i = 4 * (y * width + x), over = cover * Math.abs(share), end = rgb[share < 0 ? 0 : 1];
    const luma = 0.2126 * dots[i] + 0.7152 * dots[i + 1] + 0.0722 * dots[i + 2];
    const grey = 255 * dark + (bright - dark) * luma;
    for (let c = 0; c < 3; c++) dots[i + c] = grey * (1 - over) + end[c] * over;
  }
}

function exact(grid, shares, ink, cover, {data: dots, width, height}) {
  const [rows, columns] = grid, [right, bottom] = covered(grid, width, height);
  const rgb = parsed(ink.palette);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const inside = y < bottom && x < right;
    const patch = Math.floor(y * rows / bottom) * columns + Math.floor(x * columns / right);
    const end = rgb[Math.round(((inside ? shares[patch] : 0) + 1) * ink.steps)];
    for (let c = 0, i = 4 * (y * width + x); c < 3; c++) dots[i + c] = end[c];
    dots[4 * (y * width + x) + 3] = 255;
  }
}

// One painter per stage. It keeps the opacity, and what to show when nothing is pointed at.
const painters = new WeakMap();
const BARE = 8; // pixels of a patch if there is no image

function painterOf(stage, ink, grid, seen) {
  if (painters.has(stage)) return painters.get(stage);
  const image = stage.querySelector("img");
  const canvas = element("canvas"), frame = element("span", "", "frame");
  const onImage = stage.dataset.paint === "overlay";
  let shares = null;
  canvas.hidden = frame.hidden = true;
  stage.append(canvas, frame);

  function size() {
    const from = onImage ? seen : image;
    return from ? [from.naturalWidth, from.naturalHeight] : [grid[1] * BARE, grid[0] * BARE];
  }

  function paint() {
    const shown = shares ?? painter.base;
    canvas.hidden = !shown;
    if (!shown) return;
    const [width, height] = size();
    if (!width) return;
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d", {willReadFrequently: true});
    if (onImage) context.drawImage(seen, 0, 0);
    const picture = context.getImageData(0, 0, width, height);
    (onImage ? smooth : exact)(grid, shown, ink, painter.cover, picture);
    context.putImageData(picture, 0, 0);
  }

  function box(item) {
    const [width, height] = size(), [right, bottom] = covered(grid, width, height);
    const wide = 100 * right / width / grid[1], high = 100 * bottom / height / grid[0];
    return [item % grid[1] * wide, Math.floor(item / grid[1]) * high, wide, high];
  }

  const painter = {
    base: null, // shown when nothing is pointed at; null for the picture itself
    cover: ink.cover,
    paint,
    show(values, span) {
      shares = values && Array.from(values, (v) => limited(v / span));
      paint();
    },
    mark(item) {
      frame.hidden = item === null;
      if (item === null) return;
      const [left, top, width, height] = box(item).map((part) => part + "%");
      Object.assign(frame.style, {left, top, width, height});
    },
    under(event) {
      const place = canvas.hidden ? image.getBoundingClientRect() : canvas.getBoundingClientRect();
      const [width, height] = size(), [right, bottom] = covered(grid, width, height);
      const x = Math.floor((event.clientX - place.left) / place.width * width / right * grid[1]);
      const y = Math.floor((event.clientY - place.top) / place.height * height / bottom * grid[0]);
      return x >= 0 && y >= 0 && x < grid[1] && y < grid[0] ? y * grid[1] + x : null;
    },
  };
  painters.set(stage, painter);
  return painter;
}

// A long text: one line per sentence that unfolds to its words, a search box and a map of the whole.
// Only what is unfolded is painted, so that thousands of words react at once.

const longTexts = new WeakMap();

// Set the class of a word to its own classes and a colour, or back to what it was.
function paintWord(word, colour) {
  word.was ??= word.className;
  const next = colour === null ? word.was : word.was.replace(/ [pn]\d+| beyond/g, "") + " " + colour;
  if (next !== (word.now ?? word.was)) word.className = word.now = next;
}

function longText(box) {
  if (longTexts.has(box)) return longTexts.get(box);
  const list = box.querySelector(".sentences"), folds = [...list.querySelectorAll("details")];
  const words = [...list.querySelectorAll(".word")], map = element("div", "", "minimap");
  const special = words.map((word) => word.classList.contains("special"));
  const view = element("span", "", "view");
  let start = 0, now = null;

  const sentences = folds.map((fold) => {
    const from = start, head = fold.querySelector("summary"), count = fold.querySelectorAll(".word").length;
    const cell = element("i", "", head.dataset.colour);
    start += count;
    cell.style.flexGrow = Math.max(count, 3);
    map.append(cell);
    return {fold, from, to: start, head, cell, score: head.querySelector(".number"),
            had: head.querySelector(".number").textContent, was: head.dataset.colour, drawn: null};
  });
  map.append(view);

  // -- colours -------------------------------------------------------------------------------

  function paintWords(sentence) {
    if (sentence.drawn === now) return;
    sentence.drawn = now;
    for (let i = sentence.from; i < sentence.to; i++) {
      paintWord(words[i], now && colourClass(now.values[i], now.span, now.steps));
      words[i].had ??= words[i].title;
      words[i].title = now ? `${words[i].textContent}: ${number(now.values[i], now.span)}` : words[i].had;
    }
  }

  // Show these values of the words, or their own scores if there are none.
  function show(values, span, steps) {
    if (!values && !now) return;
    now = values && {values, span, steps};
    const sums = values && sentences.map(({from, to}) => {
      let all = 0, own = 0;
      for (let i = from; i < to; i++) { all += values[i]; if (!special[i]) own += values[i]; }
      return [all, own];
    });
    if (now) now.sums = sums.map((sum) => sum[1]);
    const most = sums && (largest(sums.map((sum) => sum[1])) || largest(sums.map((sum) => sum[0])) || 1);
    sentences.forEach((sentence, s) => {
      const colour = sums ? colourClass(sums[s][0], most, steps).split(" ")[0] : sentence.was;
      if (sentence.head.dataset.colour !== colour) {
        sentence.head.classList.replace(sentence.head.dataset.colour, colour);
        sentence.head.dataset.colour = sentence.cell.className = colour;
      }
      sentence.score.textContent = sums ? number(sums[s][0], most) : sentence.had;
      if (sentence.fold.open) paintWords(sentence);
    });
  }

  // -- going somewhere -----------------------------------------------------------------------

  const sentenceOf = (word) => sentences.find(({to}) => word < to);

  function reveal(sentence, word) {
    sentence.fold.open = true;
    paintWords(sentence);
    const target = word ?? sentence.head, place = target.getBoundingClientRect();
    list.scrollTop += place.top - list.getBoundingClientRect().top - list.clientHeight / 3;
  }

  // Go to the sentence that is strongest for what is shown now.
  function revealStrongest() {
    if (now?.sums) reveal(sentences[strongest(now.sums, 1)[0]]);
  }

  function follow() {
    const part = 100 / Math.max(list.scrollHeight, 1);
    Object.assign(view.style, {top: `${list.scrollTop * part}%`, height: `${list.clientHeight * part}%`});
  }

  map.addEventListener("click", (event) => {
    const found = sentences.find(({cell}) => cell === event.target);
    if (found) reveal(found);
  });
  map.setAttribute("aria-hidden", "true");
  list.addEventListener("scroll", follow, {passive: true});
  list.addEventListener("toggle", (event) => {
    const sentence = sentences.find(({fold}) => fold === event.target);
    if (sentence?.fold.open) paintWords(sentence);
    follow();
  }, true);

  // The heads are one stop of the Tab key; the arrow keys go from one to the next.
  sentences.forEach(({head}, s) => { head.tabIndex = s ? -1 : 0; });
  list.addEventListener("keydown", (event) => {
    const at = sentences.findIndex(({head}) => head === event.target);
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (at < 0 || !step) return;
    const next = sentences[(at + step + sentences.length) % sentences.length].head;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    event.preventDefault();
  });

  // -- searching -----------------------------------------------------------------------------

  const tools = element("div", "", "find"), field = element("input"), says = element("span");
  const next = element("button", "next"), all = element("button", "unfold all");
  const texts = words.map((word) => word.textContent.toLowerCase());
  const whole = texts.join(""), starts = [];
  texts.reduce((at, text, i) => { starts[i] = at; return at + text.length; }, 0);
  let hits = [], at = -1, marked = [];
  Object.assign(field, {type: "search", placeholder: "find in this text"});
  field.setAttribute("aria-label", "find in this text");
  says.setAttribute("role", "status");
  next.type = all.type = "button";

  // The words that hold the text. It may cross words if it has a space or a sign in it.
  function search(text) {
    const wanted = text.toLowerCase().replace(/\s+/g, ""), crosses = /[^\p{L}\p{N}]/u.test(text.trim());
    const found = [];
    let word = 0;
    for (let i = wanted ? whole.indexOf(wanted) : -1; i >= 0; i = whole.indexOf(wanted, i + 1)) {
      while (word + 1 < starts.length && starts[word + 1] <= i) word++;
      let last = word;
      while (last + 1 < starts.length && starts[last + 1] < i + wanted.length) last++;
      if (last === word || crosses && starts[word] === i) found.push([word, last]);
    }
    return found;
  }

  function go(to) {
    marked.forEach((word) => delete word.dataset.found);
    at = hits.length ? (to + hits.length) % hits.length : -1;
    marked = at < 0 ? [] : words.slice(hits[at][0], hits[at][1] + 1);
    marked.forEach((word) => { word.dataset.found = ""; });
    says.textContent = !field.value.trim() ? "" : at < 0 ? "not found" : `${at + 1} of ${hits.length}`;
    if (at >= 0) reveal(sentenceOf(hits[at][0]), marked[0]);
  }

  field.addEventListener("input", () => { hits = search(field.value); go(0); });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { go(at + (event.shiftKey ? -1 : 1)); event.preventDefault(); }
    if (event.key === "Escape") { field.value = ""; hits = []; go(0); event.stopPropagation(); }
  });
  next.addEventListener("click", () => go(at + 1));
  all.addEventListener("click", () => {
    const open = all.textContent === "unfold all";
    folds.forEach((fold) => { fold.open = open; });
    all.textContent = open ? "fold all" : "unfold all";
  });
  tools.append(field, next, says, all);
  box.before(tools);
  box.append(map);
  follow();

  const made = {words, sentences, show, revealStrongest};
  longTexts.set(box, made);
  return made;
}

for (const box of document.querySelectorAll(".whyformer .long:not([data-ready])")) {
  box.dataset.ready = "";
  longText(box);
}

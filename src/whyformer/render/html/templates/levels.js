// Words, or the sub-words that the model read.

for (const pieces of document.querySelectorAll(".whyformer .pieces")) {
  const stream = pieces.parentElement;
  stream.insertBefore(choices("shown as", ["words", "sub-words"], 0, (level) => {
    stream.querySelectorAll(".in-words").forEach((shown) => { shown.hidden = level === 1; });
    stream.querySelectorAll(".in-pieces").forEach((shown) => { shown.hidden = level === 0; });
  }), [...stream.children].find((part) => part.matches(".in-words, .turn")));
}

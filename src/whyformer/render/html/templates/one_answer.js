// Of several explanations of one answer, show the one that is chosen.

const explained = [...document.querySelectorAll(".whyformer .one-answer")];

function showOne(chosen) {
  explained.forEach((one, i) => { one.hidden = i !== chosen; });
  // A minimap was measured while it was hidden.
  explained[chosen].querySelectorAll(".sentences").forEach((list) => list.dispatchEvent(new Event("scroll")));
}

if (explained.length > 1) {
  explained[0].before(choices("by", explained.map((one) => one.dataset.name), 0, showOne));
  showOne(0);
}

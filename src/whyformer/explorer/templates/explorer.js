// Send the form to the server, read its answer line by line, and cancel it on request.

import {Beside} from "./beside.js";
import {Form} from "./form.js";
import {Results} from "./results.js";
import {Samples} from "./samples.js";

const $ = (id) => document.getElementById(id);
let running = null;

const results = new Results((name) => {
  $("target").value = name;
  explain();
});
const form = new Form((says) => results.fail(says));
const beside = new Beside();
const samples = new Samples((row) => {
  form.useSample(row);
  explain();
});
let last = null;  // the last result, to compare the next one with

async function explain() {
  running?.abort();
  const mine = running = new AbortController();
  const question = form.question(), others = form.others;
  history.replaceState(null, "", form.link());
  $("link-status").textContent = "";
  results.begin(question.methods);
  beside.clear();
  const before = $("keep").checked && last?.model === question.model ? last : null;
  if (before) beside.before(before);
  if (matchMedia("(max-width:56rem)").matches) $("result").scrollIntoView();
  $("cancel").hidden = false;
  $("explain").disabled = true;
  document.body.dataset.state = "running";
  let ended = "done";
  try {
    ended = await ask(question, mine, (event) => results.take(event));
    if (ended === "done" && running === mine) {
      const now = {model: question.model, text: question.text, ...results.outcome};
      if (before) beside.change(before, now);
      last = now;
      if (now.shares.length) samples.predicted(question.target === "" ? now.shares[0].name : "");
    }
    if (ended === "done") await askOthers(question, others, mine);
  } catch (error) {
    ended = mine.signal.aborted ? "cancelled" : "error";
    if (!mine.signal.aborted) results.fail("the explorer does not answer; check that it is still running in its terminal");
  }
  if (running !== mine) return;
  running = null;
  results.end();
  $("cancel").hidden = true;
  $("explain").disabled = false;
  document.body.dataset.state = ended;
}

// Ask, pass on every event, and return how it ended: "done" or "error".
async function ask(question, mine, take) {
  let ended = "done";
  const answer = await fetch("explain", {method: "POST", body: JSON.stringify(question),
    headers: {"Content-Type": "application/json"}, signal: mine.signal});
  for await (const event of lines(answer.body)) {
    if (event.event === "error") ended = "error";
    if (running === mine) take(event);
  }
  return ended;
}

// The same question for other models, one after the other, each with a report beside the first.
async function askOthers(question, others, mine) {
  const cards = others.map((name) => [name, beside.add(name, question.model)]);
  const image = others.length ? await form.imageBytes() : null;
  for (const [name, card] of cards) {
    const {example, sample, ...rest} = question;
    const other = {...rest, model: name, curves: false, ...(image ? {image} : {})};
    await ask(other, mine, (event) => card.take(event));
  }
}

async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const whole = (rest + value).split("\n");
    rest = whole.pop();
    for (const line of whole) yield JSON.parse(line);
  }
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  explain();
});
for (const id of ["text", "answer"]) {
  $(id).addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) explain();
  });
}
$("cancel").addEventListener("click", () => running?.abort());
$("link").addEventListener("click", async () => {
  const own = form.own ? " Your own image is not part of it." : "";
  try {
    await navigator.clipboard.writeText(location.href);
    $("link-status").textContent = `Copied.${own}`;
  } catch {
    $("link-status").textContent = `The link is in the address bar.${own}`;
  }
});

if (location.search) {
  if (form.restore(location.search)) explain();
} else form.choose(0);
document.body.dataset.ready = "";

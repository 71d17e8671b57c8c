// The form: its fields, the request that it sends, and the link that restores it.

const $ = (id) => document.getElementById(id);
const {models, limits} = JSON.parse($("data").textContent);
const boxes = () => [...document.querySelectorAll("[name=method]")];

async function encode(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

export class Form {
  constructor(problem) {
    this.problem = problem;
    this.own = null;  // an image that the reader uploaded, in base64
    this.example = null;
    this.sample = null;  // the number of a sample of the dataset
    $("model").addEventListener("change", () => this.modelChanged());
    $("image").addEventListener("change", () => this.read($("image").files[0]));
    $("text").addEventListener("input", () => { if (!this.reads("image")) this.pressed(null); });
    for (const kind of ["dragover", "dragleave", "drop"]) {
      $("drop").addEventListener(kind, (event) => {
        event.preventDefault();
        $("drop").classList.toggle("over", kind === "dragover");
        if (kind === "drop") this.read(event.dataTransfer.files[0]);
      });
    }
    this.modelChanged();
  }

  get model() { return models.find(({name}) => name === $("model").value); }

  get methods() { return boxes().filter((box) => box.checked).map((box) => box.value); }

  // The models that are asked the same question.
  get others() {
    return [...document.querySelectorAll("[name=other]:checked")].map((box) => box.value);
  }

  reads(kind) { return this.model.reads.includes(kind); }

  modelChanged() {
    const both = this.reads("text") && this.reads("image");
    $("model-title").textContent = this.model.title;
    $("text-field").hidden = !this.reads("text");
    $("second-field").hidden = both || this.model.writes;
    $("answer-field").hidden = !this.model.writes;
    $("target-field").hidden = this.model.writes;
    $("image-field").hidden = !this.reads("image");
    $("query-field").hidden = !this.model.detects;
    $("text-label").textContent = both ? "Question or text about the image" : this.model.writes ? "Prompt" : "Text";
    this.clearQuestion();
    this.offerOthers();
    $("classes").replaceChildren();
    if (!this.reads("image")) this.own = null;
    $("examples-field").hidden = !this.model.examples.length;
    $("examples").replaceChildren(...this.model.examples.map((example, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = example.text ?? `example ${index + 1}`;
      if (example.image) {
        const image = document.createElement("img");
        image.src = this.address(index);
        image.alt = example.text ? "" : button.title;
        image.loading = "lazy";
        button.classList.add("shown");
        button.append(image);
      }
      if (example.text) {
        const text = document.createElement("span");
        text.textContent = example.text;
        button.append(text);
      }
      button.addEventListener("click", () => this.choose(index));
      return button;
    }));
    if (this.example !== null) this.choose(this.model.examples.length ? 0 : null);
    else if (!this.own) this.picture(null);
    if (this.own) this.pressed(null);
  }

  // Only models that read and write the same kinds can get the same question.
  offerOthers() {
    const fits = models.filter((one) => one.name !== this.model.name && one.writes === this.model.writes
      && !one.detects && !this.model.detects && one.reads.join() === this.model.reads.join());
    $("others-field").hidden = !fits.length;
    $("others").replaceChildren(...fits.map(({name, title}) => {
      const label = document.createElement("label"), box = document.createElement("input"), text = document.createElement("span");
      Object.assign(box, {type: "checkbox", name: "other", value: name});
      text.textContent = name;
      label.title = title;
      label.append(box, text);
      return label;
    }));
  }

  clearQuestion() {
    for (const id of ["target", "query", "answer", "max-new-tokens"]) $(id).value = "";
  }

  address(index) { return `examples/${encodeURIComponent(this.model.name)}/${index}`; }

  choose(index) {
    this.pressed(index);
    const example = this.model.examples[index];
    this.clearQuestion();
    if (example?.text) $("text").value = example.text;
    this.own = this.sample = null;
    this.picture(example?.image ? this.address(index) : null, example?.image ? "an example; drop your own here" : "");
  }

  // A row of the table of samples.
  useSample({index, text, second, image}) {
    this.pressed(null);
    this.clearQuestion();
    $("text").value = text ?? "";
    $("second").value = second ?? "";
    if (second) $("second-field").open = true;
    this.own = null;
    this.sample = image ? index : null;
    this.picture(image ? `samples/${index}/image` : null, image ? `sample ${index + 1}` : "");
  }

  // The image in base64, wherever it comes from; null if there is none.
  async imageBytes() {
    if (!this.reads("image")) return null;
    if (this.own) return this.own;
    if (this.example === null && this.sample === null) return null;
    const answer = await fetch($("preview").src);
    return encode(await answer.blob());
  }

  pressed(index) {
    this.example = index;
    [...$("examples").children].forEach((button, i) => button.setAttribute("aria-pressed", i === index));
  }

  picture(address, says) {
    if (this.blob) URL.revokeObjectURL(this.blob);
    this.blob = address?.startsWith("blob:") ? address : null;
    $("preview").hidden = !address;
    if (address) $("preview").src = address; else $("preview").removeAttribute("src");
    $("image-hint").textContent = says || "Drop an image here, or click to choose one";
  }

  async read(file) {
    if (!file) return;
    if (file.size > limits.upload) {
      this.problem(`the image file has ${(file.size / 1e6).toFixed(1)} MB, and the limit is ${limits.upload / 1e6} MB; make it smaller`);
      return;
    }
    this.own = await encode(file);
    this.sample = null;
    this.pressed(null);
    this.picture(URL.createObjectURL(file), file.name);
  }

  // The request to the server.
  question() {
    const request = {model: this.model.name, methods: this.methods, target: $("target").value};
    if (this.model.detects && $("query").value !== "") request.query = Number($("query").value);
    if (this.reads("text")) request.text = $("text").value;
    if (this.model.writes && $("answer").value.trim() !== "") request.answer = $("answer").value;
    else if (this.model.writes && $("max-new-tokens").value !== "") request.max_new_tokens = Number($("max-new-tokens").value);
    if (this.reads("text") && !this.reads("image") && !this.model.writes) request.second = $("second").value;
    if (this.reads("image") && this.own) request.image = this.own;
    else if (this.reads("image") && this.sample !== null) request.sample = this.sample;
    else if (this.example !== null) request.example = this.example;
    return request;
  }

  // The same as a query string, without an image that the reader uploaded.
  link() {
    const {methods, image, ...rest} = this.question();
    const chosen = new URLSearchParams({model: rest.model, methods: methods.join(",")});
    for (const name of ["text", "second", "target", "query", "example", "sample", "answer", "max_new_tokens"]) {
      if (rest[name] !== undefined && rest[name] !== "") chosen.set(name, rest[name]);
    }
    if (this.others.length) chosen.set("others", this.others.join(","));
    return `?${chosen}`;
  }

  // Fill the form from a link, and return whether that is enough for a request.
  restore(query) {
    const fields = new URLSearchParams(query), number = fields.get("example");
    if (models.some(({name}) => name === fields.get("model"))) $("model").value = fields.get("model");
    const names = fields.get("methods")?.split(",") ?? limits.chosen;
    boxes().forEach((box) => { box.checked = names.includes(box.value); });
    this.modelChanged();
    if (number !== null && /^\d+$/.test(number) && Number(number) < this.model.examples.length) this.choose(Number(number));
    for (const name of ["text", "second", "target", "query", "answer", "max_new_tokens"]) {
      if (fields.has(name)) $(name.replaceAll("_", "-")).value = fields.get(name).slice(0, limits.characters);
    }
    const others = fields.get("others")?.split(",") ?? [];
    for (const box of document.querySelectorAll("[name=other]")) box.checked = others.includes(box.value);
    if (others.length) $("others-field").open = true;
    const sample = fields.get("sample");
    if (this.reads("image") && sample !== null && /^\d{1,6}$/.test(sample)) {
      this.sample = Number(sample);
      this.picture(`samples/${sample}/image`, `sample ${this.sample + 1}`);
    }
    if (fields.get("second")) $("second-field").open = true;
    if (!this.reads("image") && this.model.examples[this.example]?.text !== $("text").value) this.pressed(null);
    const shown = this.reads("image") ? this.example !== null || this.sample !== null : fields.has("text");
    return shown && (!this.reads("text") || $("text").value !== "");
  }
}

// A choice as native radio buttons, which already work with the keyboard, and a slider.

let groups = 0;

function choices(title, names, chosen, choose) {
  const set = element("fieldset", "", "choices"), group = `whyformer-${++groups}`;
  set.append(element("legend", title));
  names.forEach((name, i) => {
    const label = element("label"), input = element("input"), text = element("bdi", name);
    Object.assign(input, {type: "radio", name: group, value: i, checked: i === chosen});
    input.addEventListener("change", () => choose(i));
    label.append(input, text);
    set.append(label);
  });
  return set;
}

function slider(title, value, change) {
  const label = element("label", title + " ", "slider"), input = element("input");
  const percent = element("output", `${Math.round(100 * value)} %`);
  Object.assign(input, {type: "range", min: 0, max: 100, step: 1, value: Math.round(100 * value)});
  input.addEventListener("input", () => {
    percent.textContent = `${input.value} %`;
    change(input.value / 100);
  });
  label.append(input, percent);
  return label;
}

// Copying, and paper.

for (const button of document.querySelectorAll(".whyformer .copy")) {
  const text = document.querySelector("script.data").textContent;
  const told = button.parentElement.querySelector("[role=status]");
  const area = button.parentElement.querySelector("textarea");
  const copied = () => { told.textContent = "Copied."; };
  // Where a page may not write to the clipboard, the reader can: everything is selected.
  function select() {
    area.hidden = false;
    area.value = text;
    area.focus();
    area.select();
    if (document.execCommand("copy")) copied();
    else told.textContent = "Selected. Press Ctrl+C or Command+C to copy.";
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    told.textContent = "";
    const asked = navigator.clipboard?.writeText(text);
    if (asked) asked.then(copied, select); else select();
  });
}

addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll(".whyformer details:not(.inside)")) folded.open = true;
});

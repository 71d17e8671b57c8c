// The button that copies the scores, and details that open for printing.

for (const button of document.querySelectorAll(".whyformer .copy")) {
  const text = document.querySelector("script.data").textContent;
  const status = button.parentElement.querySelector("[role=status]");
  const area = button.parentElement.querySelector("textarea");
  const copied = () => { status.textContent = "Copied."; };
  // If the page may not write to the clipboard, select the text so that the reader can copy it.
  function select() {
    area.hidden = false;
    area.value = text;
    area.focus();
    area.select();
    if (document.execCommand("copy")) copied();
    else status.textContent = "Selected. Press Ctrl+C or Command+C to copy.";
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    status.textContent = "";
    const writing = navigator.clipboard?.writeText(text);
    if (writing) writing.then(copied, select); else select();
  });
}

addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll(".whyformer details:not(.inside)")) folded.open = true;
});

"""Explains what the bundled models say: in the terminal, as pages and as pictures.

python examples/demo.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import whyformer as wf

SENTENCE = "The scenery is gorgeous; the dialogue is a chore."
# With this option scores and sinks add up to the output exactly, whatever the activations.
EXACT = {"activations": "identity"}
# Between streams: which words asked which part of the image.
BETWEEN = {"method": "gae"}
# What else is shown, for each task that a bundled model has: which of its samples, and how.
TASKS = {
    "visual-question-answering": ("question", 4, BETWEEN),
    "object-detection": ("objects", 1, BETWEEN),
    "image-to-text": ("caption", 1, BETWEEN),
    "zero-shot-image-classification": ("match", 1, EXACT),
}


def shown() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Names of files, inputs, and the other arguments of `explain`."""
    models = wf.models()
    yield "why", SENTENCE, {**EXACT, "keep": "attention"}  # the page has layers to look into
    yield "digit", models["mnist"].samples()[3], EXACT
    for task, (name, sample, options) in TASKS.items():
        able = [model for model in models.values() if model.task == task]
        for model in able[:1]:
            yield name, model.samples()[sample], {"model": model.name, **options}


def main(folder: Path) -> None:
    """Nothing; prints explanations and where their pages and pictures are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, given, options in shown():
        attribution = wf.explain(given, **options)
        print(attribution.to_terminal())
        attribution.to_html(folder / f"{name}.html")
        attribution.to_png(folder / f"{name}.png")
    both = ["positive", "negative", wf.contrast("negative", "positive")]
    wf.compare(SENTENCE, targets=both, **EXACT).to_html(folder / "classes.html")
    for path in sorted(folder.glob("*.*")):
        print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

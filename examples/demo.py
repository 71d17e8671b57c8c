"""Explain predictions of the bundled models: in the terminal, as HTML pages and as pictures.

python examples/demo.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import whyformer as wf

SENTENCE = "The scenery is gorgeous; the dialogue is a chore."
# A method with a map between streams: how much each word took from each part of the image.
BETWEEN = {"method": "gae"}
# Task of a bundled model -> name of the files, index of the sample, options of `explain`.
TASKS = {
    "visual-question-answering": ("question", 4, BETWEEN),
    "object-detection": ("objects", 1, BETWEEN),
    "image-to-text": ("caption", 1, BETWEEN),
    "zero-shot-image-classification": ("match", 1, {}),
}


def demo_inputs() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield the name of the files, the input, and the other arguments of `explain`."""
    models = wf.models()
    yield "why", SENTENCE, {"keep": "attention"}  # the page also shows layers and heads
    yield "digit", models["mnist"].samples()[3], {}
    for task, (name, sample, options) in TASKS.items():
        model = next((model for model in models.values() if model.task == task), None)
        if model is not None:
            yield name, model.samples()[sample], {"model": model.name, **options}


def main(folder: Path) -> None:
    """Print every explanation, and write its page and picture to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, inputs, options in demo_inputs():
        attribution = wf.explain(inputs, **options)
        print(attribution.to_terminal())
        attribution.to_html(folder / f"{name}.html")
        attribution.to_png(folder / f"{name}.png")
    targets = ["positive", "negative", wf.contrast("negative", "positive")]
    wf.compare(SENTENCE, targets=targets).to_html(folder / "classes.html")
    for path in sorted(folder.glob("*.*")):
        print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

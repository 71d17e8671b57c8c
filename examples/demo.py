"""Explains a sentence and a digit with the bundled models: terminal, page and picture.

python examples/demo.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import whyformer as wf

SENTENCE = "The scenery is gorgeous; the dialogue is a chore."


def main(folder: Path) -> None:
    """Nothing; prints two explanations and where their pages and pictures are."""
    folder.mkdir(parents=True, exist_ok=True)
    digit = wf.models()["mnist"].samples()[3]
    for name, given in (("why", SENTENCE), ("digit", digit)):
        # With this option scores and sinks add up to the output exactly, whatever the activations.
        attribution = wf.explain(given, activations="identity")
        print(attribution.to_terminal())
        attribution.to_html(folder / f"{name}.html")
        attribution.to_png(folder / f"{name}.png")
    for path in sorted(folder.glob("*.*")):
        print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))

"""Draw the small picture on each method's page: a sentence and a digit, coloured by their scores.

    python docs/method_pictures.py [NAME ...]

Writes docs/images/methods/NAME.svg, by default for every method.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from xml.sax.saxutils import escape

import whyformer as wf

FOLDER = Path(__file__).parent / "images" / "methods"
SENTENCE = "The scenery is gorgeous; the dialogue is a chore."
FOR, AGAINST = (214, 69, 65), (58, 110, 198)
LETTER, LINE, CELL, WIDTH = 7.8, 30, 17, 640


def colour(share: float) -> str:
    """Return red for 1, blue for -1 and white for 0."""
    strongest = FOR if share > 0 else AGAINST
    mixed = (round(255 + (channel - 255) * min(abs(share), 1)) for channel in strongest)
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def draw_words(words: list[tuple[str, float]]) -> list[str]:
    """Return one box per word, from left to right."""
    largest = max(abs(score) for _, score in words) or 1
    shapes, left = [], 0.0
    for word, score in words:
        width = LETTER * len(word) + 10
        shapes.append(
            f'<rect x="{left:.1f}" y="2" width="{width:.1f}" height="{LINE - 4}" rx="4"'
            f' fill="{colour(score / largest)}"/>'
            f'<text x="{left + 5:.1f}" y="{LINE / 2 + 4:.1f}">{escape(word)}</text>'
        )
        left += width + 4
    return shapes


def draw_patches(scores: list[list[float]]) -> list[str]:
    """Return one square per patch, below the words."""
    largest = max(abs(score) for row in scores for score in row) or 1
    return [
        f'<rect x="{column * CELL}" y="{LINE + 8 + row * CELL}" width="{CELL}" height="{CELL}"'
        f' fill="{colour(score / largest)}" stroke="#dddddd"/>'
        for row, values in enumerate(scores)
        for column, score in enumerate(values)
    ]


def picture(name: str) -> str:
    """Return the picture of a method as SVG."""
    text = wf.explain(SENTENCE, "sst2", method=name, target="negative")
    special = {"[CLS]", "[SEP]"}
    words = [(word, score) for word, score in text[0].words() if word not in special]
    digit = wf.explain(wf.models()["mnist"].samples()[3], "mnist", method=name)
    grid = digit.streams["image"].score_map[0].tolist()
    height = LINE + 12 + CELL * len(grid)
    shapes = "\n".join([*draw_words(words), *draw_patches(grid)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}" font-family="monospace" font-size="13">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n{shapes}\n</svg>\n'
    )


def main() -> None:
    """Write the pictures of all methods."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or wf.methods():
        (FOLDER / f"{name}.svg").write_text(picture(name), encoding="utf-8")
        print(f"wrote {name}.svg", flush=True)


if __name__ == "__main__":
    main()

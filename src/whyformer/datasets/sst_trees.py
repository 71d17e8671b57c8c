"""The Stanford Sentiment Treebank: one tree per line, every node with a sentiment of 0 to 4."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, check_choice, read_lines, require_utf8

LABELS = {
    "2": ("negative", "positive"),
    "5": ("very negative", "negative", "neutral", "positive", "very positive"),
}
NEUTRAL = "2"
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
FORM = "a tree as in (3 (2 It) (4 works)), every node with 0 to 4"
_PART = re.compile(r"[()]|[^ ()]+")  # a word may hold a space of another kind


@dataset(
    "sst_trees",
    title="Stanford Sentiment Treebank, whole sentences from the trees",
    task="text-classification",
    splits=("dev", "test", "train"),
    layout="train.txt, dev.txt and test.txt in one folder, one bracketed tree per line",
    licence="none stated; research use",
    paper="Socher et al. 2013",
)
def sst_trees(source: DatasetSource, *, classes: str = "2", encoding: str = "utf-8") -> Contents:
    """Read sentences; with two classes, sentences whose root is neutral are left out.

    Prefers `train_without_dev.txt` to `train.txt`, which contains the dev trees in some copies.
    """
    labels = LABELS[check_choice("classes", str(classes), LABELS)]
    file = source.find(
        *(["train_without_dev.txt"] if source.split == "train" else []), f"{source.split}.txt"
    )

    def read(name: str, spot: Spot, line: str) -> Sample:
        root, words = parse_tree(require_utf8(line, spot), spot)
        label = root if len(labels) == 5 else int(root > 2)
        extras = {"tokens": words, "sentiment": root}
        return Sample(name, " ".join(words), label, labels[label], extras)

    def rows() -> Iterator[DatasetRow]:
        trees = ((spot, line.strip()) for spot, line in read_lines(file, encoding))
        for number, (spot, line) in enumerate((s, t) for s, t in trees if t):
            if len(labels) == 5 or not line.startswith(f"({NEUTRAL} "):
                yield DatasetRow(
                    source.id(number), spot, partial(read, source.id(number), spot, line)
                )

    return Contents(rows, labels)


def parse_tree(line: str, spot: Spot) -> tuple[int, tuple[str, ...]]:
    """Return the sentiment of the root, 0 to 4, and the words of a tree."""
    parts = _PART.findall(line)
    words: list[str] = []
    open_nodes: list[str] = []  # what comes next in each: a label, children, or its end
    root = ""
    for number, part in enumerate(parts):
        if not open_nodes and number:
            raise spot.error("there is more after the end of the tree", FORM)
        if part == "(":
            if open_nodes and open_nodes[-1] not in ("children", "more"):
                raise spot.error("there is a node instead of a label or an end", FORM)
            open_nodes[-1:] = ["more"] if open_nodes else []
            open_nodes.append("label")
        elif part == ")":
            if not open_nodes or open_nodes.pop() not in ("more", "end"):
                raise spot.error("a bracket closes too early", FORM)
        elif open_nodes and open_nodes[-1] == "label":
            if part not in tuple("01234"):
                raise spot.error(f"a node has the label {part!r}", FORM)
            root = root or part
            open_nodes[-1] = "children"
        elif open_nodes and open_nodes[-1] == "children":
            words.append(BRACKETS.get(part, part).replace("\\/", "/").replace("\\*", "*"))
            open_nodes[-1] = "end"
        else:
            raise spot.error(f"{part!r} is outside a node", FORM)
    if open_nodes or not words:
        raise spot.error(f"{len(open_nodes)} brackets are not closed", FORM)
    return int(root), tuple(words)

"""TweetEval: a text file and a file of labels with the same number of lines, and a mapping."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, parse_whole, read_lines, require_utf8
from whyformer.errors import InputError


@dataset(
    "tweeteval",
    title="TweetEval: emotion, hate, sentiment and the other tasks",
    task="text-classification",
    splits=("val", "test", "train"),
    layout="{train,val,test}_text.txt, {train,val,test}_labels.txt and mapping.txt in one folder",
    licence="research use; see each task",
    paper="Barbieri et al. 2020",
)
def tweeteval(source: DatasetSource, *, subset: str = "", encoding: str = "utf-8") -> Contents:
    """Read the tweets of one task, whose folder is the path or its sub-folder `subset`.

    Some tweets are empty lines. They count, because labels are matched by line.
    """
    folder = source.path / subset
    if not (folder / "mapping.txt").is_file():
        tasks = [file.parent.name for file in sorted(folder.glob("*/mapping.txt"))]
        if tasks:
            raise InputError(
                f"{folder} has several tasks",
                argument="data",
                remedy=f"Add one of them to the path: {', '.join(tasks)}",
            )
        raise source.missing_error("mapping.txt")
    texts, labels = (folder / f"{source.split}_{part}.txt" for part in ("text", "labels"))
    for file in (texts, labels):
        if not file.is_file():
            raise source.missing_error(file.name)
    names = _mapping(folder / "mapping.txt", encoding)

    def read(name: str, text: tuple[Spot, str] | None, label: tuple[Spot, str] | None) -> Sample:
        if text is None or label is None:
            spot, _ = text or label or (Spot(texts), "")
            other = labels if label is None else texts
            raise spot.error(
                f"{other.name} has no such line", "the same number of lines in both files"
            )
        label_text = require_utf8(label[1], label[0]).strip()
        value = parse_whole(label_text)
        if value is None or value >= len(names):
            raise label[0].error(f"the label is {label_text!r}", f"0 to {len(names) - 1}")
        return Sample(name, require_utf8(text[1], text[0]).strip(), value, names[value])

    def rows() -> Iterator[DatasetRow]:
        both = zip_longest(read_lines(texts, encoding), read_lines(labels, encoding))
        for number, (text, label) in enumerate(both):
            spot = (text or label or (Spot(texts), ""))[0]
            yield DatasetRow(source.id(number), spot, partial(read, source.id(number), text, label))

    return Contents(rows, names)


def _mapping(file: Path, encoding: str) -> tuple[str, ...]:
    names: list[str] = []
    for spot, line in read_lines(file, encoding):
        if not line.strip():
            continue
        number, tab, name = line.strip().partition("\t")
        if not tab or number != str(len(names)):
            raise InputError(f"{spot}: expected {len(names)}, a tab and the name of that label")
        names.append(require_utf8(name, spot).strip())
    if not names:
        raise InputError(f"{file} is empty; expected a number, a tab and a name per line")
    return tuple(names)

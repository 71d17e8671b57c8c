"""MELD: utterances of a television series with their sentiment and their emotion, as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.dataset import Contents, Row, Sample, dataset
from whyformer.datasets.files import Record, Where, choice, table

LABELS = {
    "sentiment": ("negative", "neutral", "positive"),
    "emotion": ("anger", "disgust", "fear", "joy", "neutral", "sadness", "surprise"),
}


@dataset(
    "meld",
    title="MELD utterances, sentiment (MELD-S) or emotion",
    task="text-classification",
    splits=("dev", "test", "train"),
    layout="{train,dev,test}_sent_emo.csv with columns Utterance, Sentiment, Emotion, ...",
    licence="GPL-3.0",
    paper="Poria et al. 2019",
)
def meld(where: Where, *, label: str = "sentiment", encoding: str = "utf-8") -> Contents:
    """The utterances; `label` is "sentiment" or "emotion", numbered in alphabetical order."""
    labels = LABELS[choice("label", label, LABELS)]
    found = table(where.find(f"{where.split}_sent_emo.csv"), encoding=encoding)
    text, column = found.column("Utterance"), found.column(label)
    kept = {
        part: name
        for part in ("speaker", "dialogue_id", "utterance_id")
        if (name := found.maybe(part)) is not None
    }

    def read(name: str, record: Record) -> Sample:
        row = record.named()
        if not row[text].strip():
            raise record.spot.wrong("the utterance is empty", "a text")
        value = row[column].strip().lower()
        if value not in labels:
            raise record.spot.wrong(f"the {label} is {value!r}", f"one of {', '.join(labels)}")
        extras = {part: row[there] for part, there in kept.items()}
        return Sample(name, row[text].strip(), labels.index(value), value, extras)

    def rows() -> Iterator[Row]:
        for number, record in enumerate(found.records()):
            yield Row(where.id(number), record.spot, partial(read, where.id(number), record))

    return Contents(rows, labels)

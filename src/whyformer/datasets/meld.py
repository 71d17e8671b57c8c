"""MELD: utterances of a television series with their sentiment and their emotion, as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, dataset
from whyformer.datasets.files import DatasetSource, Record, check_choice, open_csv

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
def meld(source: DatasetSource, *, label: str = "sentiment", encoding: str = "utf-8") -> Contents:
    """Read utterances; `label` is "sentiment" or "emotion", numbered in alphabetical order."""
    labels = LABELS[check_choice("label", label, LABELS)]
    found = open_csv(source.find(f"{source.split}_sent_emo.csv"), encoding=encoding)
    text, column = found.column("Utterance"), found.column(label)
    kept = {
        part: name
        for part in ("speaker", "dialogue_id", "utterance_id")
        if (name := found.optional_column(part)) is not None
    }

    def read(name: str, record: Record) -> Sample:
        row = record.by_column()
        if not row[text].strip():
            raise record.spot.error("the utterance is empty", "a text")
        value = row[column].strip().lower()
        if value not in labels:
            raise record.spot.error(f"the {label} is {value!r}", f"one of {', '.join(labels)}")
        extras = {part: row[there] for part, there in kept.items()}
        return Sample(name, row[text].strip(), labels.index(value), value, extras)

    def rows() -> Iterator[DatasetRow]:
        for number, record in enumerate(found.records()):
            yield DatasetRow(
                source.id(number), record.spot, partial(read, source.id(number), record)
            )

    return Contents(rows, labels)

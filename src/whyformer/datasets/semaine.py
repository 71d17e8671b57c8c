"""SEMAINE-style transcripts: utterances with a sentiment, or a rated valence, as CSV.

The licence of the recordings does not allow publishing a table, so there is no official CSV. This
is the expected one; the case of column names does not matter:

    text       the utterance (or: transcript, utterance)
    label      negative, neutral or positive (or: sentiment); or, if there is no such column,
    valence    the raters' mean, a number from -1 to 1
    session, speaker, start, end    copied to `extras`, if present
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, dataset
from whyformer.datasets.files import DatasetSource, Record, open_csv
from whyformer.errors import OptionError

LABELS = ("negative", "neutral", "positive")
COPIED = ("session", "speaker", "start", "end")


@dataset(
    "semaine",
    title="SEMAINE transcripts, sentiment",
    task="text-classification",
    splits=("test", "train", "dev"),
    layout="{train,dev,test}.csv, or one .csv file, with columns text and label (negative, neutral,"
    " positive) or text and valence (-1 to 1)",
    licence="end-user agreement of the SEMAINE database",
    paper="McKeown et al. 2012",
)
def semaine(
    source: DatasetSource, *, neutral: float | str = 0.1, encoding: str = "utf-8"
) -> Contents:
    """Read utterances; a valence within `neutral` of 0 is neutral."""
    try:
        width = float(neutral)
    except ValueError:
        raise OptionError(
            f"neutral is {neutral!r}", argument="neutral", remedy="Pass a number from 0 to 1"
        ) from None
    found = open_csv(source.find(f"{source.split}.csv", "semaine.csv"), encoding=encoding)
    text = found.column("text", "transcript", "utterance")
    label_column = found.optional_column("label", "sentiment")
    column = label_column or found.column("label", "sentiment", "valence")
    kept = {part: name for part in COPIED if (name := found.optional_column(part)) is not None}

    def label_of(value: str, record: Record) -> int:
        if label_column:
            if value.lower() not in LABELS:
                raise record.spot.error(
                    f"{label_column} is {value!r}", f"one of {', '.join(LABELS)}"
                )
            return LABELS.index(value.lower())
        try:
            valence = float(value)
        except ValueError:
            valence = float("nan")
        if not -1 <= valence <= 1:
            raise record.spot.error(f"{column} is {value!r}", "a number from -1 to 1")
        return 1 if abs(valence) <= width else 2 * int(valence > 0)

    def read(name: str, record: Record) -> Sample:
        row = record.by_column()
        if not row[text].strip():
            raise record.spot.error(f"{text} is empty", "the text of the utterance")
        label = label_of(row[column].strip(), record)
        extras = {part: row[there] for part, there in kept.items()}
        return Sample(name, row[text].strip(), label, LABELS[label], extras)

    def rows() -> Iterator[DatasetRow]:
        for number, record in enumerate(found.records()):
            yield DatasetRow(
                source.id(number), record.spot, partial(read, source.id(number), record)
            )

    return Contents(rows, LABELS)

"""All scores of an attribution as one table: a row per word, patch or frame."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from whyformer.attribution.attribution import Attribution
from whyformer.attribution.optional_package import import_package
from whyformer.attribution.stream import Stream
from whyformer.errors import InputError

COLUMNS = ("sample", "stream", "position", "text", "special", "score", "label", "output",
           "probability", "method")  # fmt: skip


def score_rows(attribution: Attribution) -> Iterator[dict[str, Any]]:
    """Yield a row for every word of every stream of every sample; padding is left out.

    `position` counts the words or patches of a stream from 0. `text` is the word; for a patch its
    place, counted from 1. `special` is whether the tokenizer added it, as it does with [CLS].
    """
    for sample, one in enumerate(attribution):
        chance = None if one.probability is None else float(one.probability[0])
        shared = {
            "label": one.labels[0],
            "output": float(one.output[0]),
            "probability": chance if chance == chance else None,
            "method": one.method,
        }
        for name, stream in one.streams.items():
            for position, (text, special, score) in enumerate(stream_rows(one, stream)):
                yield {
                    "sample": sample,
                    "stream": name,
                    "position": position,
                    "text": text,
                    "special": special,
                    "score": score,
                    **shared,
                }


def stream_rows(one: Attribution, stream: Stream) -> list[tuple[str, bool, float]]:
    """Return (text, special, score) of every word or patch of a stream of one sample."""
    if stream.tokens is not None:
        groups = stream.word_ids[0] if stream.word_ids else range(len(stream.tokens[0]))
        starts = [g for i, g in enumerate(groups) if g is None or i == 0 or g != groups[i - 1]]
        words = one.words(stream.name)
        return [
            (text, group is None, score) for (text, score), group in zip(words, starts, strict=True)
        ]
    scores = stream.scores[0].tolist()
    if stream.grid is None:
        return [(str(i), False, score) for i, score in enumerate(scores)]
    columns = stream.grid[1]
    return [
        (f"row {i // columns + 1}, column {i % columns + 1}", False, score)
        for i, score in enumerate(scores)
    ]


def strongest_rows(
    one: Attribution, count: int, stream: str | None, specials: bool
) -> list[tuple[str, float]]:
    """Return (text, score) of the rows with the largest |score|, strongest first."""
    if len(one) != 1:
        raise InputError(
            f"top() needs one sample, and this attribution has {len(one)}",
            remedy="Index it first, as in a[0].top(5)",
        )
    if stream is not None and stream not in one.streams:
        raise InputError(
            f"there is no stream {stream!r}",
            argument="stream",
            remedy=f"Pass one of {', '.join(one.streams)}",
        )
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(
            f"k={count!r} is not a positive integer", argument="k", remedy="Pass 1 or more"
        )
    found = one[0].streams[stream or one.main]
    rows = [(text, score) for text, odd, score in stream_rows(one[0], found) if specials or not odd]
    return sorted(rows, key=lambda row: -abs(row[1]))[:count]


def to_csv(attribution: Attribution) -> str:
    """Return the table as CSV with a header."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(score_rows(attribution))
    return file.getvalue()


def to_pandas(attribution: Attribution) -> Any:
    """Return the table as a `pandas.DataFrame`."""
    pandas = import_package("pandas", "to_pandas()")
    return pandas.DataFrame(list(score_rows(attribution)), columns=list(COLUMNS))

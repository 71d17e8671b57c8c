"""The samples of a dataset, as rows that the page shows and walks through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from whyformer.datasets import Sample, open_dataset
from whyformer.errors import InputError

ROWS = 50  # in one answer to the page


@dataclass(frozen=True)
class SampleTable:
    """The first samples of a dataset."""

    name: str = ""
    samples: tuple[Sample, ...] = ()

    def rows(self, start: int, characters: int) -> dict[str, Any]:
        """Return some rows as JSON values; texts are cut after `characters`."""
        part = self.samples[start : start + ROWS]
        rows = [_row(start + i, sample, characters) for i, sample in enumerate(part)]
        return {"count": len(self.samples), "start": start, "rows": rows}

    def image(self, index: object) -> Any:
        """Return the image of a sample, or its path; raise InputError if there is none."""
        if not isinstance(index, int) or isinstance(index, bool):
            raise InputError(f"the sample {str(index)[:20]!r} is not a number")
        if not 0 <= index < len(self.samples):
            raise InputError(f"the data have no sample {index}", remedy="Choose one in the table")
        found = _parts(self.samples[index].inputs)["image"]
        if found is None:
            raise InputError(
                f"sample {index} has no image", remedy="Choose a model that reads text"
            )
        return found


def read_samples(source: str, limit: int) -> SampleTable:
    """Return the first samples of a dataset; raise InputError if it has none."""
    data = open_dataset(source, limit=limit)
    samples = tuple(islice(data, limit))
    if not samples:
        raise InputError(f"{source} has no samples", argument="data", remedy="Pass another file")
    # Browsers see only the last part of the path.
    return SampleTable(Path(source.partition(":")[2].partition(",")[0]).name, samples)


def _row(index: int, sample: Sample, characters: int) -> dict[str, Any]:
    parts = _parts(sample.inputs)
    label = sample.label_name if sample.label_name is not None else sample.label
    return {
        "index": index,
        "text": None if parts["text"] is None else str(parts["text"])[:characters],
        "second": None if parts["second"] is None else str(parts["second"])[:characters],
        "image": parts["image"] is not None,
        "label": None if label is None else str(label),
    }


def _parts(inputs: Any) -> dict[str, Any]:
    """Return the text, the second text and the image of a sample; None if it has none."""
    found = {"text": None, "second": None, "image": None}
    if isinstance(inputs, str):
        return {**found, "text": inputs}
    if isinstance(inputs, Mapping):
        return {**found, **{name: inputs[name] for name in ("text", "image") if name in inputs}}
    if isinstance(inputs, Sequence) and all(isinstance(text, str) for text in inputs):
        return {**found, **dict(zip(("text", "second"), inputs, strict=False))}
    return {**found, "image": inputs}

"""The results of a run: a value per sample, method, target and metric; read from its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whyformer.errors import InputError
from whyformer.metrics.score import Score
from whyformer.storage import open_folder

RESULTS = "results.parquet"
SETTINGS = "settings.json"


class ResultKey(NamedTuple):
    """One cell of the table: a method, an explained class and a metric."""

    method: str
    target: str  # "predicted" or "label": the class that was explained
    metric: str


@dataclass(frozen=True)
class Results:
    """The rows of a run, in the order of its samples, methods, targets and metrics."""

    rows: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path | str) -> Results:
        """Return the finished run in a folder.

        Raises:
            InputError: The folder has no finished run, or a file cannot be read.
        """
        import pyarrow.parquet as parquet

        place = open_folder(folder, create=False)
        read: dict[str, Any] = {}
        for name in (RESULTS, SETTINGS):
            try:
                content = place.read(name)
                if name == RESULTS:
                    read[name] = parquet.read_table(BytesIO(content)).to_pylist()
                else:
                    read[name] = json.loads(content.decode("utf-8"))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise InputError(
                    f"{place.name!r} is not a finished run: it has no {name}",
                    argument="folder",
                    remedy="Run the evaluation to its end",
                ) from error
            except (OSError, ValueError) as error:  # Arrow's and JSON's errors are subclasses
                raise InputError(
                    f"{place.path(name)!r} cannot be read ({error})",
                    argument="folder",
                    remedy="Run the same evaluation again, which writes the file again",
                ) from error
        return cls(read[RESULTS], read[SETTINGS])

    @property
    def failures(self) -> Sequence[Mapping[str, Any]]:
        """The samples that could not be evaluated: "sample", "error" and "attempts"."""
        found: Sequence[Mapping[str, Any]] = self.settings.get("failures", ())
        return found

    @cached_property
    def cells(self) -> dict[ResultKey, list[Mapping[str, Any]]]:
        """The rows of every cell of the table."""
        found: dict[ResultKey, list[Mapping[str, Any]]] = {}
        for row in self.rows:
            found.setdefault(ResultKey(row["method"], row["target"], row["metric"]), []).append(row)
        return found

    def __str__(self) -> str:
        """Return the table as Markdown, one line per method and one column per metric."""
        from whyformer.evaluation.tables import markdown

        return markdown(self)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with one row per sample, method, target and metric."""
        from whyformer.attribution.optional_package import import_package

        return import_package("pandas", "to_pandas()").DataFrame([dict(row) for row in self.rows])

    def _distinct(self, part: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(getattr(cell, part) for cell in self.cells))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order of the plan."""
        return self._distinct("method")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, and the measures of those that have several ("segmentation/miou")."""
        return self._distinct("metric")

    @property
    def targets(self) -> tuple[str, ...]:
        """Which classes were explained: "predicted", "label" or both."""
        return self._distinct("target")

    def samples(self, cell: ResultKey) -> list[str]:
        """The ids of the samples of one cell, in the order of its score."""
        return [row["sample"] for row in self.cells.get(cell, [])]

    def score(self, cell: ResultKey) -> Score | None:
        """The values of all samples of one cell; None if nothing was measured."""
        rows = self.cells.get(cell)
        if not rows:
            return None
        known = self.settings["metrics"].get(cell.metric, {})
        steps = known.get("steps")
        curves = [row["curve"] for row in rows]
        shares = [(row["found"], row["there"]) for row in rows]
        return Score(
            torch.tensor([row["value"] for row in rows], dtype=torch.float64),
            _stack_rows(curves) if steps else None,
            tuple(steps) if steps else None,
            known.get("convention", ""),
            shares=_shares(shares),
        )


def _stack_rows(rows: Sequence[Sequence[float] | None]) -> Tensor | None:
    full = [row for row in rows if row is not None]
    return torch.tensor(full, dtype=torch.float64) if len(full) == len(rows) else None


def _shares(
    rows: Sequence[tuple[Sequence[float] | None, Sequence[float] | None]],
) -> tuple[Tensor, Tensor] | None:
    found, there = (_stack_rows(part) for part in zip(*rows, strict=True))
    return None if found is None or there is None else (found, there)

"""The result of `recommend`: a method, a sentence, a table of all methods, and its views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, overload

from whyformer.attribution.viewable import write_file


@dataclass(frozen=True)
class MeasuredValue:
    """One method by one measure, with its 95 % interval; NaN ends if there are too few samples."""

    measure: str
    better: str  # "higher" or "lower"
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MethodRow:
    """One method of the race.

    Args:
        label: The method and its options, such as "gae(gradient=balanced)".
        method: The name of the method.
        options: Its options, for `explain`.
        outcome: "recommended", "level" (not significantly worse than the best), or "dropped".
        round: The last round in which it was measured; 0 if it never ran.
        samples: How many samples it was measured on.
        values: Its value by each measure, on these samples.
        behind: How far its total is behind that of the best, in standard deviations of a measure;
            NaN if it was not compared.
        behind_low: The lower end of the 95 % interval of `behind`.
        behind_high: The upper end.
        p: The p of no difference from the best, after Holm's correction.
        conserves: Whether its scores and sinks add up to the output on these samples; None if it
            does not promise that.
        reason: Why it was dropped.
        seconds: Its time per sample, in batches.
    """

    label: str
    method: str
    options: Mapping[str, Any]
    outcome: str
    round: int
    samples: int
    values: tuple[MeasuredValue, ...]
    behind: float
    behind_low: float
    behind_high: float
    p: float
    conserves: bool | None
    reason: str = ""
    seconds: float = field(default=float("nan"), compare=False)


@dataclass(frozen=True)
class Recommendation:
    """The method to use for a model and data, and how all methods did.

    Args:
        label: The recommended method and its options, as text.
        method: Its name, for `explain(method=...)`.
        options: Its options, for `explain(**options)`.
        sentence: The answer in words.
        rows: All methods: the recommended one, those level with it, then the dropped ones, the
            last to leave first.
        notes: What limits the answer.
        model: The name of the model.
        data: Where the samples are from.
        samples: How many samples were measured.
        rounds: In how many rounds.
        measures: What decided; all count equally.
        seed: The seed.
        seconds: The time that it took.

    Example:
        >>> found = whyformer.recommend("sst2", texts)  # doctest: +SKIP
        >>> whyformer.explain(text, "sst2", method=found.method, **found.options)  # doctest: +SKIP
    """

    label: str
    method: str
    options: Mapping[str, Any]
    sentence: str
    rows: tuple[MethodRow, ...]
    notes: tuple[str, ...]
    model: str
    data: str
    samples: int
    rounds: int
    measures: tuple[str, ...]
    seed: int
    seconds: float = field(default=float("nan"), compare=False)

    @property
    def dropped(self) -> tuple[MethodRow, ...]:
        """The methods that left the race, with when and why."""
        return tuple(row for row in self.rows if row.outcome == "dropped")

    @property
    def level(self) -> tuple[MethodRow, ...]:
        """The recommended method, and those that are not significantly worse than the best."""
        return tuple(row for row in self.rows if row.outcome != "dropped")

    def __str__(self) -> str:
        return self.sentence

    # -- views -----------------------------------------------------------------------------------

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path) -> None: ...
    def to_html(self, path: str | Path | None = None) -> str | None:
        """Return a self-contained web page, or write it to `path` and return None."""
        from whyformer.recommend.views import html_page

        return self._give(html_page(self), path)

    @overload
    def to_png(self, path: None = None) -> bytes: ...
    @overload
    def to_png(self, path: str | Path) -> None: ...
    def to_png(self, path: str | Path | None = None) -> bytes | None:
        """Return the chart as PNG bytes, or write it to `path` and return None."""
        from whyformer.recommend.views import picture

        return self._give(picture(self, "png"), path)

    @overload
    def to_svg(self, path: None = None) -> bytes: ...
    @overload
    def to_svg(self, path: str | Path) -> None: ...
    def to_svg(self, path: str | Path | None = None) -> bytes | None:
        """Return the chart as SVG bytes, or write it to `path` and return None."""
        from whyformer.recommend.views import picture

        return self._give(picture(self, "svg"), path)

    @overload
    def to_json(self, path: None = None) -> str: ...
    @overload
    def to_json(self, path: str | Path) -> None: ...
    def to_json(self, path: str | Path | None = None) -> str | None:
        """Return all numbers as JSON text, or write it to `path` and return None."""
        from whyformer.render.json_text import to_json

        return self._give(to_json(asdict(self)), path)

    def to_terminal(self) -> str:
        """Return the sentence and the table as text for a terminal."""
        from whyformer.recommend.views import terminal_text

        return terminal_text(self)

    def _repr_html_(self) -> str:
        from whyformer.recommend.views import html_fragment

        return html_fragment(self)

    @staticmethod
    def _give(content: Any, path: str | Path | None) -> Any:
        if path is None:
            return content
        write_file(content, path)
        return None

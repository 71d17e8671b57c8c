"""Mean curves with their bootstrap bands, and as a picture for a paper or the docs."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from whyformer.errors import InputError
from whyformer.evaluation.results import ResultKey, Results
from whyformer.evaluation.summary import bootstrap_of, with_metric_settings
from whyformer.evaluation.wording import decimals_for, visible
from whyformer.statistics.bootstrap import Bootstrap, Resamples

# Found by search: under each common colour blindness any two differ by 0.14 in OKLab, and all have
# a contrast of 3 and more against their page. Beyond six, dashes tell lines apart.
LIGHT = ("#004be2", "#ff5313", "#10a589", "#7f517e", "#281a46", "#762300")
DARK = ("#936df4", "#ce880e", "#74c5df", "#b8324f", "#ffffff", "#f7cc20")
DASHES = ("", "7 3", "2 3", "9 3 2 3")

FEW = 6  # lines whose bands can all be seen at once
LONGEST = 26  # characters of a label


@dataclass(frozen=True)
class Curve:
    """A method's mean at every step, and the band in which it lies; NaN where nothing tells."""

    method: str
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def finite(self) -> list[float]:
        """All its numbers that are numbers."""
        return [v for v in (*self.mean, *self.low, *self.high) if math.isfinite(v)]


@dataclass(frozen=True)
class Curves:
    """All methods' curves by one metric, explaining one class."""

    target: str
    metric: str
    steps: tuple[float, ...]
    lines: tuple[Curve, ...]

    @property
    def places(self) -> int | None:
        """The decimals that its numbers are written with."""
        return decimals_for(max((abs(v) for line in self.lines for v in line.finite), default=0.0))


def curves(
    results: Results, metric: str, target: str, how: Bootstrap | None = None
) -> Curves | None:
    """The curves of one metric; None where it has none."""
    run, redraws = with_metric_settings(results), Resamples(how or bootstrap_of(results))
    lines, steps = [], None
    for method in run.methods:
        score = run.score(ResultKey(method, target, metric))
        if score is not None and score.curve is not None and score.steps:
            steps = score.steps
            lines.append(_curve(method, score.curve, redraws))
    return None if steps is None else Curves(target, metric, steps, tuple(lines))


def _curve(method: str, curve: Tensor, redraws: Resamples) -> Curve:
    kept = curve[curve.isfinite().all(1)]
    if not len(kept):
        nothing = (math.nan,) * curve.shape[1]
        return Curve(method, nothing, nothing, nothing)
    mean = tuple(kept.mean(0).tolist())
    if len(kept) < 2:
        nothing = (math.nan,) * curve.shape[1]
        return Curve(method, mean, nothing, nothing)
    low, high = torch.quantile(redraws.means(kept), redraws.bootstrap.quantiles(), dim=0).tolist()
    return Curve(method, mean, tuple(low), tuple(high))


def look(index: int) -> tuple[int, str]:
    """A line's colour and dashes: all colours first, then all of them again with dashes."""
    return index % len(LIGHT), DASHES[index // len(LIGHT) % len(DASHES)]


def short(text: str) -> str:
    """The text, cut where a label would be too long."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


# -- a file ----------------------------------------------------------------------------------


def curve_png(results: Results, metric: str, target: str, path: str | Path) -> None:
    """Writes the curves of one metric as a picture, PNG or SVG by the file's ending."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    file, found = Path(path), curves(results, metric, target)
    if found is None:
        raise InputError(f"metric {metric!r} has no curve for target {target!r} in this run")
    if file.suffix.lower() not in (".png", ".svg") or not file.parent.is_dir():
        raise InputError(f"{str(file)!r}: expected a .png or .svg file in a folder that exists")
    kind = file.suffix.lower()[1:]
    figure = Figure(figsize=(7, 3.6), dpi=160, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for i, line in enumerate(found.lines):
        colour, dashes = look(i)
        (drawn,) = axes.plot(found.steps, line.mean, color=LIGHT[colour], linewidth=1.6)
        drawn.set_linestyle((0, tuple(map(float, dashes.split()))) if dashes else "solid")
        drawn.set_label(str(i))
        if len(found.lines) <= FEW:
            axes.fill_between(
                found.steps, line.low, line.high, color=LIGHT[colour], alpha=0.15, linewidth=0
            )
    axes.set_xlabel("share of the tokens" if max(found.steps) <= 1 else "step")
    axes.set_ylabel(visible(metric), parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    legend = axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    for text, line in zip(legend.get_texts(), found.lines, strict=True):
        text.set_parse_math(False)
        text.set_text(short(visible(line.method)))
    stamp = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "whyformer"}):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(file, format=kind, metadata=stamp)

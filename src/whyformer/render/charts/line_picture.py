"""Line charts as a picture file, for a paper or the docs."""

from __future__ import annotations

import warnings
from pathlib import Path

from whyformer.attribution.characters import hide_controls
from whyformer.errors import InputError
from whyformer.render.charts.line_chart import FEW, LIGHT, LineChart, line_label, line_look


def save_lines(chart: LineChart, path: str | Path) -> None:
    """Write the chart as PNG or SVG, by the ending of `path`.

    Raises:
        InputError: If the file has another ending, or its folder does not exist.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    file = Path(path)
    if file.suffix.lower() not in (".png", ".svg") or not file.parent.is_dir():
        raise InputError(
            f"cannot write {str(file)!r}: expected a .png or .svg file in a folder that exists",
            argument="path",
            remedy="Create the folder, and end the name with .png or .svg",
        )
    kind = file.suffix.lower()[1:]
    figure = Figure(figsize=(7, 3.6), dpi=160, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for i, line in enumerate(chart.lines):
        colour, dashes = line_look(i)
        (drawn,) = axes.plot(chart.steps, line.mean, color=LIGHT[colour], linewidth=1.6)
        drawn.set_linestyle((0, tuple(map(float, dashes.split()))) if dashes else "solid")
        drawn.set_label(str(i))
        if len(chart.lines) <= FEW:
            axes.fill_between(
                chart.steps, line.low, line.high, color=LIGHT[colour], alpha=0.15, linewidth=0
            )
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(hide_controls(chart.y_label), parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    legend = axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    for text, line in zip(legend.get_texts(), chart.lines, strict=True):
        text.set_parse_math(False)
        text.set_text(line_label(line))
    # Without a date, the same chart is the same file.
    stamp = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "whyformer"}):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(file, format=kind, metadata=stamp)

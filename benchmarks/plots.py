"""Plots of benchmarks/results, as SVG whose bytes depend on the figures only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PLAIN = "forward+backward"
# Groups of methods: gradients, attention maps, relevance propagation.
GROUPS = {
    "gradients": (
        "gradient_x_input",
        "lrp_ah",
        "lrp_ln",
        "lrp_ah_ln",
        "attn_lrp",
        "integrated_gradients",
    ),
    "attention maps": ("raw_attention", "rollout", "grad_cam", "gae", "attention_flow"),
    "relevance": ("partial_lrp", "transformer_attribution", "full_lrp"),
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "whyformer",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def by_length(cells: Sequence[Mapping[str, Any]], figure: str, label: str, path: Path) -> None:
    """Ratio to the plain pass over the length of one text, a panel for each group of methods."""
    single = [cell for cell in cells if cell["batch"] == 1]
    plain = {cell["tokens"]: cell[figure] for cell in single if cell["method"] == PLAIN}

    def draw(canvas: Any) -> None:
        from matplotlib.ticker import LogLocator

        panels = canvas.subplots(1, len(GROUPS), sharey=True)
        for panel, (group, methods) in zip(panels, GROUPS.items(), strict=True):
            for method, colour in zip(methods, COLOURS, strict=False):
                own = {c["tokens"]: c[figure] for c in single if c["method"] == method}
                if own:
                    ratios = [own[tokens] / plain[tokens] for tokens in own]
                    panel.plot([*own], ratios, marker="o", ms=3, label=method, color=colour)
            panel.axhline(1, color="#888888", lw=0.8, ls=":")
            panel.set(xscale="log", yscale="log", title=group, xlabel="tokens")
            panel.set_xticks([*plain], [str(tokens) for tokens in plain], rotation=45)
            panel.minorticks_off()
            if panel.lines[:-1]:  # beside the line at 1
                panel.legend(frameon=False, fontsize=7)
        panels[0].set_ylabel(label)
        panels[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panels[0].yaxis.set_major_formatter("{x:g}")

    _save(draw, (10, 3.6), path)


def by_peer(shapes: Mapping[str, Any], path: Path) -> None:
    """How many times as long as ours each peer takes, a bar for each model."""

    def draw(canvas: Any) -> None:
        panels = canvas.subplots(1, len(shapes), squeeze=False)[0]
        for panel, (title, found) in zip(panels, shapes.items(), strict=True):
            seconds = next(iter(found["figures"].values()))
            rows = found["rows"][::-1]
            ratios = [seconds[row["peer"]] / seconds[row["ours"]] for row in rows]
            colours = [{"ours": COLOURS[0], "peer": COLOURS[1]}.get(r["winner"]) for r in rows]
            bars = panel.barh(
                [row["peer"] for row in rows], ratios, color=[c or "#888888" for c in colours]
            )
            panel.bar_label(bars, [f"{ratio:.2f}" for ratio in ratios], padding=2)
            panel.axvline(1, color="#333333", lw=0.8)
            panel.set(title=title, xlabel="its time / ours")

    _save(draw, (5.5 * len(shapes), 4), path)


def _save(draw: Callable[[Any], None], size: tuple[float, float], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        canvas = Figure(figsize=size, layout="constrained")
        draw(canvas)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, metadata={"Date": None, "Creator": None})

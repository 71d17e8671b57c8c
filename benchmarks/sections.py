"""Tables and plots of each file in benchmarks/results, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import plots

FORWARD, PLAIN, FROM_TEXT = "forward", "forward+backward", " from text"
WORDS = {
    PLAIN: "plain forward + backward",
    PLAIN + FROM_TEXT: "plain forward + backward, from text",
    FORWARD: "plain forward",
    "plain": "plain passes",
    "textbook": "textbook",
}
Results = dict[str, Any]
Row = Sequence[str]


def table(head: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def work_label(work: str) -> str:
    """A method as code, everything else in words."""
    return WORDS.get(work) or (f"`{work}`" if re.fullmatch(r"\w+(, \w+=\w+)*", work) else work)


def mib(count: float) -> str:
    return f"{count / 2**20:.1f} MiB"


def speed(found: Results, images: Path) -> str:
    """Time of each method, a column for each model."""
    shapes = found["shapes"]
    names = dict.fromkeys(name for best in shapes.values() for name in best)

    def cell(best: dict[str, float], name: str) -> str:
        if name not in best:
            return "-"
        plain = PLAIN + FROM_TEXT * name.endswith(FROM_TEXT)
        text = f"{best[name] / best[plain]:.2f}"
        if name == plain:
            text += f" ({best[name] * 1e3:.0f} ms)"
        elif name == "rollout":
            text += f" ({best[name] / best[FORWARD]:.2f} of a forward)"
        return text

    rows = [[work_label(name), *(cell(best, name) for best in shapes.values())] for name in names]
    return table(["", *shapes], rows)


def memory(found: Results, images: Path) -> str:
    """Peak of each method, a column for each model."""
    shapes = found["shapes"]
    names = dict.fromkeys(name for one in shapes.values() for name in one["peak"])

    def cell(one: dict[str, dict[str, int]], name: str) -> str:
        ratio = f"{one['peak'][name] / one['peak'][PLAIN]:.2f}"
        return ratio + (f" ({mib(one['peak'][name])})" if name == PLAIN else "")

    rows = [[work_label(name), *(cell(one, name) for one in shapes.values())] for name in names]
    return table(["", *shapes], rows)


def peers(found: Results, images: Path) -> str:
    """One table for each model: times and memory of peers over ours, and who wins."""
    parts = []
    for title, one in found["shapes"].items():
        figures = one["figures"]
        first = next(iter(figures.values()))
        rows = []
        for row in one["rows"]:
            who, ours = row["peer"], row["ours"]
            release = f" ({row['version']})" if row["version"] else ""
            wins = {"ours": "ours", "peer": "**the peer**", "even": "even"}[row["winner"]]
            apart = "" if row["difference"] is None else f"{row['difference']:.0e}"
            round_about = f"; got round: {row['got round']}" if row["got round"] else ""
            rows.append(
                [
                    f"{who}{release}",
                    work_label(ours),
                    f"{first[who] * 1e3:.0f} / {first[ours] * 1e3:.0f} ms",
                    *(f"{figure[who] / figure[ours]:.2f}" for figure in figures.values()),
                    wins,
                    apart,
                    row["compared"] + round_about,
                ]
            )
        for row in one["missing"]:
            blank = [""] * (len(figures) + 1)
            rows.append([row["peer"], work_label(row["method"]), *blank, "", "", row["why"]])
        called = {"1 thread": "1 thread", "2 thread": "2 threads", "bytes": "memory"}
        heads = [f"{called.get(name, name)}, its / ours" for name in figures]
        columns = ["peer", "ours", "its / our time", *heads, "faster", "scores differ by", "what"]
        plain = f"The plain pass takes {first[PLAIN] * 1e3:.0f} ms."
        parts.append(f"#### {title}\n\n{plain}\n\n{table(columns, rows)}")
    plots.by_peer(found["shapes"], images / "bench_peers.svg")
    parts.append("![Time of peers over ours](images/bench_peers.svg)")
    return "\n\n".join(parts)


def flow(found: Results, images: Path) -> str:
    """Seconds for all input tokens, by shape and kind of attention."""
    rows = [
        [
            shape,
            kind,
            f"{one['seconds']:.2f} s",
            f"{one['networkx_seconds']:.0f} s" if "times" in one else "",
            f"{one['times']:.0f}" if "times" in one else "",
            f"{one['difference']:.0e}" if "times" in one else "",
        ]
        for shape, kinds in found["shapes"].items()
        for kind, one in kinds.items()
    ]
    head = ["tokens x layers", "attention", "ours", "networkx", "times ours", "flows differ by"]
    return table(head, rows)


def sweep(found: Results, images: Path, name: str = "sweep") -> str:
    """Ratios over length and over batch size, growth exponents, and what was left out."""
    cells = found["cells"]
    single = [cell for cell in cells if cell["batch"] == 1]
    at = max((cell["tokens"] for cell in cells if cell["batch"] > 1), default=None)
    batched = [cell for cell in cells if cell["tokens"] == at]
    parts = [
        _ratios(single, "tokens", "{} tokens", found["exponents"]),
        f"![Time over the plain pass](images/bench_{name}_time.svg)",
        f"![Memory over the plain pass](images/bench_{name}_memory.svg)",
    ]
    plots.by_length(cells, "seconds", "time / plain", images / f"bench_{name}_time.svg")
    plots.by_length(cells, "bytes", "peak memory / plain", images / f"bench_{name}_memory.svg")
    if len({cell["batch"] for cell in batched}) > 1:
        parts.append(f"Batches of texts of {at} tokens:")
        parts.append(_ratios(batched, "batch", "batch of {}", {}))
    if found["left_out"]:
        parts.append(f"Left out: {_left_out(found['left_out'])}.")
    return "\n\n".join(parts)


def sweep_long(found: Results, images: Path) -> str:
    """The same for few layers and long texts."""
    return sweep(found, images, "sweep_long")


def _ratios(cells: list[dict[str, Any]], over: str, head: str, exponents: dict[str, Any]) -> str:
    """Time / memory over the plain pass, a column for each length or batch size."""
    steps = sorted({cell[over] for cell in cells})
    at = {(cell["method"], cell[over]): cell for cell in cells}

    def cell(method: str, step: int) -> str:
        one, plain = at.get((method, step)), at[PLAIN, step]
        if one is None:
            return "-"
        if method == PLAIN:
            return f"{one['seconds']:.2f} s / {one['bytes'] / 2**20:.0f} MiB"
        times, space = one["seconds"] / plain["seconds"], one["bytes"] / plain["bytes"]
        return f"{times:.2f} / {space:.2f}"

    rows = []
    for method in dict.fromkeys(cell["method"] for cell in cells):
        grown = exponents.get(method)
        growth = f"{grown['seconds']:.2f} / {grown['bytes']:.2f}" if grown else "-"
        row = [work_label(method), *(cell(method, step) for step in steps)]
        rows.append([*row, growth] if exponents else row)
    grows = ["grows as length to the"] if exponents else []
    return table(["time / memory", *(head.format(step) for step in steps), *grows], rows)


def _left_out(cells: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{work_label(c['method'])} at {c['tokens']} tokens"
        + (f" x {c['batch']}" if c["batch"] > 1 else "")
        + f" ({c['why']})"
        for c in cells
    )


def long_inputs(found: Results, images: Path) -> str:
    """Time and memory of one method on long texts, and of the textbook version if measured."""
    names = dict.fromkeys(name for one in found["seconds"].values() for name in one)

    def cell(tokens: str, name: str) -> str:
        seconds, sizes = found["seconds"][tokens], found["bytes"][tokens]
        if name not in seconds:
            return "-"
        if name == PLAIN:
            return f"{seconds[name]:.1f} s / {sizes[name] / 2**20:.0f} MiB"
        return f"{seconds[name] / seconds[PLAIN]:.2f} / {sizes[name] / sizes[PLAIN]:.2f}"

    rows = [
        [work_label(name), *(cell(tokens, name) for tokens in found["seconds"])] for name in names
    ]
    parts = [table(["time / memory", *(f"{n} tokens" for n in found["seconds"])], rows)]
    for name, figure in found.get("exponent", {}).items():
        parts.append(f"Memory grows as length to the {figure:.2f}: {work_label(name)}.")
    if "longest" in found:
        one = found["longest"]
        parts.append(
            f"{one['tokens']} tokens, once, in a process of its own: {one['seconds']:.0f} s by the"
            f" clock, {one['resident_gib']:.1f} GiB resident, weights and libraries included."
        )
    return "\n\n".join(parts)


def throughput(found: Results, images: Path) -> str:
    """Many texts: batches against one at a time, and a long series against plain passes."""
    parts = []
    if "lengths" in found:
        rows = []
        for shape, one in found["lengths"].items():
            for way, seconds in one["seconds"].items():
                alone = one["seconds"][("plain, " if "plain" in way else "") + "one at a time"]
                rows.append([shape, way, f"{seconds:.2f} s", f"{alone / seconds:.2f}"])
        parts.append(table(["32 texts", "passed", "time", "times as fast"], rows))
    if "series" in found:
        one = found["series"]
        plain = one["seconds"]["plain"]
        rows = [
            [work_label(name), f"{seconds:.1f} s", f"{seconds / plain:.2f}"]
            for name, seconds in one["seconds"].items()
        ]
        parts.append(table([f"{one['sentences']} sentences", "time", "over plain"], rows))
        parts.append(f"Memory grows by {one['growth in MB']:.0f} MB.")
    return "\n\n".join(parts)


def segmentation(found: Results, images: Path) -> str:
    """Segmentation figures by method."""
    names = ("pixel_accuracy", "miou", "map_class_mean", "map")
    rows = [
        [
            work_label(method),
            *(f"{one[name]:.1f}" for name in names),
            " / ".join(f"{figure:.1f}" for figure in one["authors"]),
            f"{one['seconds_per_image']:.2f}",
        ]
        for method, one in found["methods"].items()
    ]
    head = ["", "accuracy", "mIoU", "AP, class mean", "AP, joint"]
    return table([*head, "authors' code, other images", "s/image"], rows)


ROUNDING = 1e-5  # methods whose areas differ by more are listed


def evaluation(found: Results, images: Path) -> str:
    """Seconds of a loop and of batches."""
    rows = [
        [
            clock,
            f"{found['alone_seconds'][clock]:.0f} s",
            f"{found['batched_seconds'][clock]:.0f} s",
            f"{found['alone_seconds'][clock] / found['batched_seconds'][clock]:.1f}",
        ]
        for clock in ("wall", "cpu")
    ]
    difference = found["difference"]
    coarse = {name: apart for name, apart in difference.items() if apart > ROUNDING}
    usual = max(apart for name, apart in difference.items() if name not in coarse)
    said = (
        f"{found['sentences']} sentences, {found['threads']} threads; the loop timed on"
        f" {found['alone_measured_on']}. Areas differ by {usual:.0e} at most"
        + "".join(f", those of {work_label(name)} by {apart:.0e}" for name, apart in coarse.items())
        + "."
    )
    return f"{table(['', 'loop', 'batched', 'times as fast'], rows)}\n\n{said}"


def products(found: Results, images: Path) -> str:
    """How many times as long torch's own products take as those of oneDNN."""
    tokens = list(next(iter(found["ratios"].values())))
    rows = [
        [weight, *(f"{row[count]:.2f}" for count in tokens)]
        for weight, row in found["ratios"].items()
    ]
    said = "prefers oneDNN" if found["preferred"] else "leaves torch as it is"
    heads = ["weight", *(f"{count} tokens" for count in tokens)]
    return (
        f"{table(heads, rows)}\n\nwhyformer {said} on this processor. The products differ by"
        f" {found['difference']:.0e} of the sum of the sizes of their terms at most."
    )


RENDER: dict[str, Callable[[Results, Path], str]] = {
    "speed": speed,
    "speed_two": speed,
    "speed_small": speed,
    "products": products,
    "streams": speed,
    "memory": memory,
    "peers": peers,
    "flow": flow,
    "sweep": sweep,
    "sweep_long": sweep_long,
    "long_inputs": long_inputs,
    "throughput": throughput,
    "segmentation": segmentation,
    "evaluation": evaluation,
}

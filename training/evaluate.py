"""Measure the stored bundled models: the command behind the figures in their cards."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

import torch

from training import (
    common,
    mnist,
    reader,
    shapes_caption,
    shapes_clip,
    shapes_detr,
    shapes_qa,
    sst2,
    vlm_shapes,
)

# Each returns figures of a stored folder by name; the first is the one in bundled.json.
WITHOUT_DATA: dict[str, Callable[[Path], dict[str, float]]] = {
    shapes_qa.LXMERT: shapes_qa.measure,
    shapes_qa.VISUALBERT: shapes_qa.measure,
    shapes_detr.NAME: shapes_detr.measure,
    shapes_clip.NAME: shapes_clip.measure,
    shapes_caption.NAME: shapes_caption.measure,
    vlm_shapes.NAME: vlm_shapes.measure,
    reader.NAME: reader.measure,
}
ON_DATA: dict[str, Callable[[Path, Path], dict[str, float]]] = {
    "sst2": lambda folder, data: {
        "872 dev sentences": sst2.measure(folder, data, "dev"),
        "1,821 test sentences": sst2.measure(folder, data, "test"),
    },
    "mnist": lambda folder, data: {"10,000 test digits": mnist.measure(folder, data)},
}


def stated_accuracy(folder: Path) -> float:
    """Return the accuracy in the folder's bundled.json."""
    return float(json.loads((folder / "bundled.json").read_text(encoding="utf-8"))["accuracy"])


def main() -> None:
    """Print the accuracies; fail if one differs from its bundled.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("WHYFORMER_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(default) if default else None,
        help=f"{common.DATA}; without it, sst2 and mnist are not measured",
    )
    parser.add_argument("--bundled", type=Path, default=common.BUNDLED, help="folder of the models")
    parser.add_argument("--models", nargs="*", help="names of models; default: all")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    known = [*(ON_DATA if options.data else ()), *WITHOUT_DATA]
    wrong = []
    for name in options.models or known:
        if name not in known:
            parser.error(f"{name} is not among {', '.join(known)}; sst2 and mnist need --data")
        folder = options.bundled / name
        if name in ON_DATA:
            measured = ON_DATA[name](folder, options.data)
        else:
            measured = WITHOUT_DATA[name](folder)
        for figure, value in measured.items():
            print(f"{name:<18} {figure:<20} {value:.4f}", flush=True)
        first = next(iter(measured.values()))
        if abs(stated_accuracy(folder) - first) > 5e-4:
            wrong.append(f"{folder}/bundled.json states {stated_accuracy(folder)}, not {first:.4f}")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()

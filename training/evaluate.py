"""Measures the bundled models as they are stored: the command behind the figures in their cards."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from training import common, mnist, sst2


def stated(folder: Path) -> float:
    """The accuracy that the folder's bundled.json states."""
    return float(json.loads((folder / "bundled.json").read_text(encoding="utf-8"))["accuracy"])


def main() -> None:
    """Print the accuracies; fail if a stated one is not what the files achieve."""
    parser = argparse.ArgumentParser(description=__doc__)
    common.add_data_option(parser)
    parser.add_argument("--bundled", type=Path, default=common.BUNDLED, help="folder of the models")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    texts, digits = options.bundled / "sst2", options.bundled / "mnist"
    print(f"sst2   872 dev sentences    {(dev := sst2.measure(texts, options.data, 'dev')):.4f}")
    print(f"sst2   1,821 test sentences {sst2.measure(texts, options.data, 'test'):.4f}")
    print(f"mnist  10,000 test digits   {(test := mnist.measure(digits, options.data)):.4f}")
    for folder, measured in ((texts, dev), (digits, test)):
        if abs(stated(folder) - measured) > 5e-4:
            raise SystemExit(f"{folder}/bundled.json states {stated(folder)}, not {measured:.4f}")


if __name__ == "__main__":
    main()

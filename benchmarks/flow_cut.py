"""Which layer limits attention flow: its narrowest cut may be in the same layer for all tokens.

    python benchmarks/flow_cut.py [--model sst2] [--limit 8]
    python benchmarks/flow_cut.py --model $WHYFORMER_DATA/deit-tiny \\
        --data pets:$WHYFORMER_DATA/pets-segmentation

A maximum flow equals the smallest cut. The edges that enter a token in one layer (its own state and
the attention of all others to it) are a cut. For each layer: the rank correlation of attention flow
with the capacity of this cut, over the tokens of a sample, mean over samples; once from the
deciding token, once over all tokens.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from scipy.stats import spearmanr
from torch import Tensor

import whyformer as wf
from whyformer.datasets import open_dataset
from whyformer.evaluation.bundled_samples import bundled_samples

WAYS = {"from the deciding token": "row", "from all tokens": "column_sum"}


def entering(layers: Any) -> Tensor:
    """What can enter each token in each layer, (layers, tokens): edges as attention_flow has them.

    Rows of (mean over heads + identity) / 2 sum to 1; a token's column is what enters it.
    """
    means = torch.stack([layer.attention[0].mean(0) for layer in layers])
    return (means.sum(-2) + 1) / 2


def correlations(inputs: Any, model: Any, reduce: str) -> list[float]:
    """Return the rank correlation of the flow with what can enter a token, by layer."""
    found = wf.explain(inputs, model, method="attention_flow", reduce=reduce, keep=("attention",))
    flow = found.scores[0].numpy()
    room = entering(found.layers).numpy()[:, -len(flow) :]
    return [float(spearmanr(flow, one).statistic) for one in room]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="sst2")
    parser.add_argument("--data", help="NAME:PLACE; without it the model's bundled samples")
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--ways", default="row", help="row, column_sum or both, with a comma")
    options = parser.parse_args()
    samples = (
        list(open_dataset(options.data, limit=options.limit, seed=0))
        if options.data
        else bundled_samples(wf.models()[options.model])[: options.limit]
    )
    for name, reduce in WAYS.items():
        if reduce in options.ways.split(","):
            found = [correlations(one.inputs, options.model, reduce) for one in samples]
            means = torch.tensor(found).mean(0).tolist()
            print(f"{name}, {len(samples)} samples, by layer from below:")
            print("  " + " ".join(f"{one:5.2f}" for one in means), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Time of each method against a plain forward+backward to the inputs, in one run.

    python benchmarks/speed.py [--threads 1] [--rounds 10] [--json FILE] [--methods a,b,...]

Every round times the plain pass and every method in turn, so that a noisy machine disturbs all
alike; the figure is the best round of each, and the ratio is of those. What is timed is the CPU
time of this process: with one thread that is the elapsed time of a machine with nothing else to do.
Weights are random: BERT-base shape with 128 tokens, ViT-B/16 shape with 197.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import nn

import whyformer as wf
from report import against, ended

# What each method must not exceed: (reference, ratio).
LIMITS = {
    "lrp_ah_ln": ("forward+backward", 1.05),
    "gae": ("forward+backward", 1.20),
    "rollout": ("forward", 1.15),
    "transformer_attribution": ("forward+backward", 2.80),
}


def shapes() -> dict[str, tuple[nn.Module, dict[str, torch.Tensor]]]:
    """(model, inputs) of each shape, random weights, evaluation mode."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        ViTConfig,
        ViTForImageClassification,
    )

    torch.manual_seed(0)
    ids = torch.randint(1000, 30000, (1, 128))
    return {
        "BERT-base, 128 tokens": (
            BertForSequenceClassification(BertConfig()).eval(),
            {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
        ),
        "ViT-B/16, 197 tokens": (
            ViTForImageClassification(ViTConfig()).eval(),
            {"pixel_values": torch.randn(1, 3, 224, 224)},
        ),
    }


def plain(model: nn.Module, inputs: dict[str, Any], backward: bool) -> None:
    """The cheapest way to a logit and its gradient at the token states: weights frozen."""
    states = []

    def enter(module: nn.Module, args: tuple) -> tuple:
        states.append(args[0].detach().requires_grad_(backward))
        return (states[0], *args[1:])

    layers = model.bert.encoder.layer if hasattr(model, "bert") else model.vit.layers
    handle = layers[0].register_forward_pre_hook(enter)
    try:
        with torch.set_grad_enabled(backward):
            logits = model(**inputs).logits
        if backward:
            torch.autograd.grad(logits[:, 0].sum(), states[0])
    finally:
        handle.remove()


def measure(
    model: nn.Module, inputs: dict[str, Any], methods: list[str], rounds: int
) -> dict[str, float]:
    """Best seconds over the rounds, by what was run."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    work: dict[str, Callable[[], Any]] = {
        "forward": lambda: plain(model, inputs, backward=False),
        "forward+backward": lambda: plain(model, inputs, backward=True),
    }
    for name in methods:
        work[name] = lambda name=name: wf.explain(inputs, model, method=name, target=0)
    best = dict.fromkeys(work, float("inf"))
    for job in work.values():
        job()
    for _ in range(rounds):
        for name, job in work.items():
            start = time.process_time()
            job()
            best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--methods", default=",".join(LIMITS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, Any] = {"threads": options.threads, "torch": torch.__version__, "shapes": {}}
    exceeded = []
    for shape, (model, inputs) in shapes().items():
        best = measure(model, inputs, options.methods.split(","), options.rounds)
        results["shapes"][shape] = best
        print(f"\n{shape} ({options.threads} thread, best of {options.rounds})")
        for name, seconds in best.items():
            reference, limit = LIMITS.get(name, ("forward+backward", None))
            ratio = seconds / best[reference]
            figure = f"{seconds * 1e3:8.1f} ms   {ratio:5.2f}x of {reference}"
            print(f"  {name:24s} {figure}{against(limit)}")
            if limit and ratio > limit:
                exceeded.append(f"{name} on {shape}: {ratio:.2f}x > {limit:.2f}x")
    return ended(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())

"""Peak memory of each method against a plain forward+backward in eager attention.

    python benchmarks/memory.py [--tokens N] [--methods a,b,...] [--json FILE]

The figure is the largest sum of what torch has allocated and not released on the CPU while the work
runs, without weights and inputs. It is exact and the same in every run. The resident size of a
process is not: it keeps pages that were once used. Each measurement has a separate process. Buffers
inside the maths libraries are not counted, neither for the plain pass nor for a method.

Work runs once before it is measured, so that imports and caches of the libraries are not counted.

The plain pass is what benchmarks/speed.py times, weights frozen. Weights are random: BERT-base
shape with 128 tokens (or --tokens), ViT-B/16 shape with 197.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault(
    "KINETO_LOG_LEVEL", "5"
)  # the profiler prints a line when it starts and stops

import torch
from torch import nn

from report import finish, limit_note

PLAIN = "forward+backward"
# What each method must not exceed, as a ratio to the plain pass.
LIMITS = {"transformer_attribution": 2.5, "libragrad": 1.3, "gae_balanced": 1.3, "blend": 1.3}
# Methods by label, if it is not the method's name: the method and its options.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gae_balanced": ("gae", {"gradient": "balanced"})
}
METHODS = (
    "libragrad",
    "gae_balanced",
    "blend",
    "transformer_attribution",
    "partial_lrp",
    "full_lrp",
    "gae",
    "lrp_ah_ln",
    "rollout",
)
SHAPES = ("bert", "vit")


def model_and_inputs(shape: str, tokens: int) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A base-size model with eager attention and random weights, and one sample."""
    import transformers

    torch.manual_seed(0)
    eager = {"attn_implementation": "eager"}
    if shape == "bert":
        config = transformers.BertConfig(max_position_embeddings=max(512, tokens), **eager)
        model = transformers.BertForSequenceClassification(config)
        ids = torch.randint(1000, 30000, (1, tokens))
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    else:
        model = transformers.ViTForImageClassification(transformers.ViTConfig(**eager))
        inputs = {"pixel_values": torch.randn(1, 3, 224, 224)}
    return model.eval().requires_grad_(False), inputs


def plain(model: Any, inputs: dict[str, torch.Tensor]) -> None:
    """A logit and its gradient at the token states."""
    states: list[torch.Tensor] = []

    def enter(module: nn.Module, args: tuple) -> tuple:
        states.append(args[0].detach().requires_grad_())
        return (states[0], *args[1:])

    layers = model.bert.encoder.layer if hasattr(model, "bert") else model.vit.layers
    handle = layers[0].register_forward_pre_hook(enter)
    try:
        torch.autograd.grad(model(**inputs).logits[:, 0].sum(), states[0])
    finally:
        handle.remove()


def peak(work: Callable[[], Any]) -> int:
    """The most bytes that were allocated at once while the work ran."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        kept = work()
    del kept
    changes = sorted(
        (event.start_ns(), event.nbytes())
        for event in profiled.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    highest = now = 0
    for _, change in changes:
        now += change
        highest = max(highest, now)
    return highest


def measure_here(shape: str, what: str, tokens: int) -> int:
    """Bytes of one piece of work at its peak, in this process."""
    import whyformer as wf

    torch.set_num_threads(1)
    model, inputs = model_and_inputs(shape, tokens)

    def work() -> Any:
        if what == PLAIN:
            return plain(model, inputs)
        method, variant = VARIANTS.get(what, (what, {}))
        return wf.explain(inputs, model, method=method, target=0, **variant)

    work()
    return peak(work)


def measure(shape: str, what: str, tokens: int) -> int:
    """Return the same, measured in a separate process."""
    command = [sys.executable, __file__, "--tokens", str(tokens), "--one", shape, what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"measuring {what} on {shape} failed:\n{done.stderr}")
    return int(done.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=128, help="of the text")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "WHAT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        shape, what = options.one
        print(measure_here(shape, what, options.tokens))
        return 0
    titles = {"bert": f"BERT-base, {options.tokens} tokens", "vit": "ViT-B/16, 197 tokens"}
    results: dict[str, Any] = {"torch": torch.__version__, "shapes": {}}
    exceeded = []
    for shape in SHAPES:
        found: dict[str, int] = {}
        results["shapes"][titles[shape]] = {"peak": found}
        print(f"\n{titles[shape]} (peak of what torch allocates, weights not counted)")
        for name in (PLAIN, *options.methods.split(",")):
            found[name] = measure(shape, name, options.tokens)
            ratio, limit = found[name] / found[PLAIN], LIMITS.get(name)
            size = f"{found[name] / 2**20:8.1f} MiB"
            print(f"  {name:24s} {size}   {ratio:5.2f}x{limit_note(limit)}", flush=True)
            if limit and ratio > limit:
                exceeded.append(f"{name} on {titles[shape]}: {ratio:.2f}x > {limit:.2f}x")
    return finish(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())

"""Time and memory of `gae` on long inputs, against a plain pass with fused attention.

    python benchmarks/long_inputs.py [--lengths 1024,2048,4096,8192] [--layers 12] [--threads 1]
                                     [--method gae] [--longest 16384] [--json FILE]

BERT-base shape, random weights, one sample. Time is CPU time, plain pass and method in one process
and in turn. Memory is the peak of what torch allocates beyond weights, each in a separate process
(see benchmarks/memory.py). The growth exponent is the slope of log memory over log length.
"textbook" is the method as it is usually written, with `output_attentions=True` and gradients of
all maps; its memory is measured up to 2,048 tokens.

`--longest` then runs that many tokens once in a separate process, whose resident size must stay
below 12 GiB, weights and libraries included.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor, nn

import turns
from memory import peak, plain
from report import finish, limit_note

PLAIN, TEXTBOOK = "forward+backward", "textbook"
TEXTBOOK_FITS = 2048
JUDGED = 4096  # the length for which time and memory are limited
TIME_LIMIT, MEMORY_LIMIT, EXPONENT_LIMIT = 3.0, 2.0, 1.15
RESIDENT_LIMIT = 12.0  # GiB


def model_and_inputs(tokens: int, layers: int) -> tuple[nn.Module, dict[str, Tensor]]:
    """A BERT of base width with fused attention, and one sample of `tokens` tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=layers, max_position_embeddings=max(512, tokens))
    model = BertForSequenceClassification(config).eval().requires_grad_(False)
    ids = torch.randint(1000, 30000, (1, tokens))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def textbook(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """The first token's relevance by generic attention explainability, with all maps in memory.

    Of a model with eager attention and one stream, as the method is usually written.
    """

    def tracked(module: nn.Module, args: tuple, embedded: Tensor) -> Tensor:
        return embedded.detach().requires_grad_()

    handle = model.get_input_embeddings().register_forward_hook(tracked)
    try:
        output = model(**inputs, output_attentions=True)
    finally:
        handle.remove()
    gradients = torch.autograd.grad(output.logits[:, 0].sum(), output.attentions)
    relevancy = torch.eye(output.attentions[0].shape[-1])
    for attention, gradient in zip(output.attentions, gradients, strict=True):
        mixing = (attention * gradient).clamp(min=0).mean(1)[0].detach()
        relevancy = relevancy + mixing @ relevancy
    return relevancy[0]


def work_of(what: str, tokens: int, layers: int) -> Callable[[], Any]:
    """One piece of work, ready to run."""
    import whyformer as wf

    model, inputs = model_and_inputs(tokens, layers)
    if what == PLAIN:
        return lambda: plain(model, inputs)
    if what == TEXTBOOK:
        model.set_attn_implementation("eager")  # type: ignore[operator]
        return lambda: textbook(model, inputs)
    return lambda: wf.explain(inputs, model, method=what, target=0)


def time_here(what: list[str], tokens: int, layers: int, rounds: int) -> dict[str, float]:
    """Best CPU seconds of each, in turn."""
    work = {name: work_of(name, tokens, layers) for name in what}
    return turns.best(work, rounds)


def in_own_process(*arguments: str) -> list[float]:
    """The output of this script for one measurement in a separate process."""
    command = [sys.executable, __file__, "--one", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"measuring {' '.join(arguments)} failed:\n{done.stderr}")
    return [float(word) for word in done.stdout.split()]


def measure_one(kind: str, what: str, tokens: int, layers: int, threads: int) -> None:
    """Print peak bytes ("memory"), or seconds and resident GiB ("once")."""
    torch.set_num_threads(threads)
    work = work_of(what, tokens, layers)
    if kind == "memory":
        print(peak(work))
        return
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def exponent(found: dict[int, float]) -> float:
    """The slope of log size over log length, from the shortest to the longest."""
    low, high = min(found), max(found)
    return math.log(found[high] / found[low]) / math.log(high / low)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--lengths", default="1024,2048,4096,8192")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--method", default="gae")
    parser.add_argument("--longest", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, what, *numbers = options.one
        measure_one(kind, what, *(int(n) for n in numbers))
        return 0
    torch.set_num_threads(options.threads)
    lengths = [int(n) for n in options.lengths.split(",")]
    method, layers = options.method, options.layers
    shared = [str(layers), str(options.threads)]
    results: dict[str, Any] = {
        "torch": torch.__version__,
        "threads": options.threads,
        "layers": layers,
        "method": method,
        "seconds": {},
        "bytes": {},
    }
    exceeded = []

    def judge(name: str, figure: float, limit: float) -> None:
        if figure > limit:
            exceeded.append(f"{name}: {figure:.2f} > {limit:.2f}")

    for tokens in lengths:
        what = [PLAIN, method, *([TEXTBOOK] if tokens <= TEXTBOOK_FITS else [])]
        seconds = time_here(what, tokens, layers, rounds=3 if tokens <= 1024 else 1)
        sizes = {name: in_own_process("memory", name, str(tokens), *shared)[0] for name in what}
        results["seconds"][tokens], results["bytes"][tokens] = seconds, sizes
        judged = tokens == JUDGED and method == "gae"
        print(f"\n{tokens} tokens, {layers} layers, {options.threads} thread(s)")
        for name in what:
            times, space = seconds[name] / seconds[PLAIN], sizes[name] / sizes[PLAIN]
            limits = (TIME_LIMIT, MEMORY_LIMIT) if judged and name == method else (None, None)
            print(
                f"  {name:18s} {seconds[name]:8.2f} s {times:5.2f}x{limit_note(limits[0])}"
                f"   {sizes[name] / 2**20:9.0f} MiB {space:5.2f}x{limit_note(limits[1])}",
                flush=True,
            )
            if judged and name == method:
                judge(f"time at {tokens} tokens", times, TIME_LIMIT)
                judge(f"memory at {tokens} tokens", space, MEMORY_LIMIT)
    if len(lengths) > 1:
        for name in (PLAIN, method):
            figure = exponent({n: results["bytes"][n][name] for n in lengths})
            results.setdefault("exponent", {})[name] = figure
            print(f"memory grows as length ** {figure:.2f}: {name}{limit_note(EXPONENT_LIMIT)}")
        judge("growth of memory", results["exponent"][method], EXPONENT_LIMIT)
    if options.longest:
        seconds_once, resident = in_own_process("once", method, str(options.longest), *shared)
        results["longest"] = {
            "tokens": options.longest,
            "seconds": seconds_once,
            "resident_gib": resident,
        }
        held = 4 * 12 * layers * options.longest**2 / 2**30
        print(
            f"{options.longest} tokens: {seconds_once:.0f} s by the clock, {resident:.1f} GiB"
            f" resident{limit_note(RESIDENT_LIMIT)}; the maps alone would be {held:.0f} GiB, and as"
            " much again their gradients"
        )
        judge("resident GiB", resident, RESIDENT_LIMIT)
    return finish(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())

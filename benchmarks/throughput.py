"""Many inputs: batches against one at a time, and a long series against plain passes.

    python benchmarks/throughput.py [--threads 1] [--sentences 10000] [--rounds 3] [--json FILE]
                                    [--parts lengths,series] [--shapes minilm,bert]

lengths: 32 texts of 8 to 128 tokens, random weights of MiniLM's and of BERT-base's shape. One
explain() each, against an iterator over all of them, which sorts them by length, and against a
list, which is split into groups of similar length. Scores have to agree. Plain passes in the same
groups are timed too, and so are the matrix products of the linear layers alone, with all tokens in
one batch and no padding: a lower bound for anything that runs the model forward and backward.

series: sentences of SST-2 (in the folder WHYFORMER_DATA; without it the bundled
samples, repeated), the bundled model, one iterator over all of them for each method. After each
window the same batches run plainly: tokenizer, forward, backward to the token states, weights
frozen. So both include tokenisation; only ours includes words, labels and slicing. Memory is
the growth of the resident size after the first window.

Time is CPU time of this process, all threads.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor, nn

import whyformer as wf
from report import finish
from whyformer.batching.budget import WEIGHT_READING
from whyformer.batching.plan import plan_batches
from whyformer.batching.series import SeriesItem, SeriesPlanner, window_size
from whyformer.batching.split_by_length import MOST_TOKENS
from whyformer.datasets import open_dataset
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.models.load import Loaded, load_model

# How many times faster an iterator and a list must be than one at a time. A single text of 128
# tokens already uses one core fully, so a batch can only gain on short texts.
FASTER = {"minilm": 2.5, "bert": 2.5}
AGREE = 1e-5  # of the largest score
SLOWER = {"lrp_ah_ln": 1.2, "gae": 1.2}  # at most, against plain passes
GROWTH = 200.0  # MB
SHAPES = {
    "minilm": {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6},
    "bert": {},
}


def lengths(shape: str, rounds: int, exceeded: list[str]) -> dict[str, Any]:
    """Seconds for 32 texts, by how they are passed; the best of the rounds."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SHAPES[shape])).eval().requires_grad_(False)
    words = torch.randint(1996, 6000, (32, 128)).tolist()
    tokenizer: Any = load_model("sst2").processor
    counts = torch.linspace(8, 128, 32).int().tolist()
    pieces = [tokenizer.convert_ids_to_tokens(row) for row in words]
    plain = [[p for p in row if p.isalpha()] * 4 for row in pieces]
    texts = [" ".join(row[: n - 2]) for row, n in zip(plain, counts, strict=True)]
    order = torch.randperm(32).tolist()
    texts = [texts[i] for i in order]

    def explain(inputs: Any) -> Any:
        return wf.explain(inputs, model, processor=tokenizer, target=0)

    rows_of_groups = plan_batches(
        [counts[i] for i in order], tokens=MOST_TOKENS, pass_cost=WEIGHT_READING
    )
    groups = [[texts[row] for row in rows] for rows in rows_of_groups]
    passes = Loaded(model, tokenizer, shape)
    ways: dict[str, Callable[[], Any]] = {
        "one at a time": lambda: [explain(text) for text in texts],
        "iterator": lambda: list(explain(iter(texts))),
        "list": lambda: explain(texts),
        "plain, one at a time": lambda: _plain(passes, [[text] for text in texts]),
        "plain, in groups": lambda: _plain(passes, groups),
        "plain, products alone": lambda: _products(model, sum(counts)),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, run in ways.items():
            best[name] = min(best[name], _seconds(run))
    apart = _apart(ways["one at a time"](), ways["iterator"]())
    print(f"\n32 texts of 8 to 128 tokens, {shape}")
    for name, seconds in best.items():
        alone = best["plain, one at a time" if name.startswith("plain") else "one at a time"]
        print(f"  {name:22s}{seconds:8.2f} s  {alone / seconds:5.2f}x", flush=True)
    print(f"  scores differ by {apart:.1e} of the largest")
    for way in ("iterator", "list"):
        ratio = best["one at a time"] / best[way]
        if ratio < FASTER[shape]:
            exceeded.append(f"{way}: {ratio:.2f}x as fast on {shape}, not {FASTER[shape]}x")
    if apart > AGREE:
        exceeded.append(f"scores on {shape} differ by {apart:.1e} of the largest > {AGREE:.0e}")
    return {"seconds": best, "scores differ by": apart}


def _apart(singles: Sequence[Any], batched: Sequence[Any]) -> float:
    """The largest difference between scores, as a share of the largest score of its sample."""
    pairs = zip(singles, batched, strict=True)
    return max(float((a.scores - b.scores).abs().max() / a.scores.abs().max()) for a, b in pairs)


def series(count: int, exceeded: list[str]) -> dict[str, Any]:
    """Seconds and growth of memory over a long series, by what was run."""
    loaded = load_model("sst2")
    loaded.module.requires_grad_(False)
    texts, size = sentences(count), window_size(None)
    runs = {
        method: wf.explain(iter(texts), loaded.module, processor=loaded.processor, method=method)
        for method in SLOWER
    }
    planner = SeriesPlanner(loaded)
    plain(loaded, texts[:32])
    seconds = dict.fromkeys(("plain", *runs), 0.0)
    held: list[float] = []
    for start in range(0, count, size):
        window = texts[start : start + size]
        items = [SeriesItem(i, text, None) for i, text in enumerate(window)]
        groups = [[str(item.inputs) for item in one.items] for one in planner.batches(items)]
        seconds["plain"] += _seconds(partial(_plain, loaded, groups))
        for method, found in runs.items():
            seconds[method] += _seconds(partial(_drop, found, len(window)))
            held.append(resident())
    growth = max(held) - held[len(runs) - 1]
    print(f"\n{count} sentences, bundled sst2, windows of {size}")
    for name, total in seconds.items():
        ratio = total / seconds["plain"]
        limit = f"  limit {SLOWER[name]:.2f}" if name in SLOWER else ""
        rate = count / total
        print(f"  {name:12s}{total:8.1f} s  {rate:6.0f} per second  {ratio:5.2f}x of plain{limit}")
        if ratio > SLOWER.get(name, ratio):
            exceeded.append(f"{name} takes {ratio:.2f}x of plain passes > {SLOWER[name]:.2f}x")
    print(f"  memory grows by {growth:.0f} MB  limit {GROWTH:.0f}", flush=True)
    if growth > GROWTH:
        exceeded.append(f"memory grows by {growth:.0f} MB over {count} sentences > {GROWTH:.0f}")
    return {"sentences": count, "seconds": seconds, "growth in MB": growth}


def sentences(count: int) -> list[str]:
    """`count` texts of SST-2 if it is there, else the bundled ones repeated."""
    place = os.environ.get("WHYFORMER_DATA")
    if place:
        found = open_dataset(f"sst2:{Path(place) / 'sst2'}", "train", limit=count, seed=0)
        return [str(sample.inputs) for sample in found]
    known = [str(sample.inputs) for sample in bundled_samples(wf.models()["sst2"])]
    return list(islice(cycle(known), count))


def plain(loaded: Loaded, texts: Sequence[str]) -> None:
    """Tokenizer, forward and backward to the states that enter the first block."""
    states: list[Tensor] = []

    def enter(module: nn.Module, args: tuple) -> tuple:
        states.append(args[0].detach().requires_grad_())
        return (states[-1], *args[1:])

    assert loaded.processor is not None
    inputs = loaded.processor(list(texts), padding=True, return_tensors="pt")
    handle = loaded.module.bert.encoder.layer[0].register_forward_pre_hook(enter)  # type: ignore
    try:
        logits = loaded.module(**inputs).logits
        torch.autograd.grad(logits.max(-1).values.sum(), states)
    finally:
        handle.remove()


def _plain(loaded: Loaded, groups: Sequence[Sequence[str]]) -> None:
    for texts in groups:
        plain(loaded, texts)


def _products(model: nn.Module, tokens: int) -> None:
    """Every block's linear layers on `tokens` tokens, forward and back to their inputs."""
    layers = [layer for layer in model.bert.encoder.modules() if isinstance(layer, nn.Linear)]  # type: ignore
    ones = {n: torch.ones(tokens, n) for layer in layers for n in layer.weight.shape}
    for layer in layers:
        out, into = layer.weight.shape
        layer(ones[into])
        ones[out] @ layer.weight


def _drop(found: Iterator[Any], count: int) -> None:
    for _ in islice(found, count):
        pass


def _seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def resident() -> float:
    """Resident size of this process in MB."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", default="lengths,series")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, Any] = {"threads": options.threads, "torch": torch.__version__}
    exceeded: list[str] = []
    parts = options.parts.split(",")
    if "lengths" in parts:
        results["lengths"] = {
            shape: lengths(shape, options.rounds, exceeded) for shape in options.shapes.split(",")
        }
    if "series" in parts:
        results["series"] = series(options.sentences, exceeded)
    return finish(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())

"""Time and peak memory of every method over lengths and batch sizes, against a plain pass.

    python benchmarks/sweep.py [--lengths 64,128,...] [--batches 1,8,32] [--methods a,b,...]
                               [--layers 12] [--threads 1] [--rounds 3] [--budget 60]
                               [--memory 8] [--json FILE]

BERT-base shape, random weights, frozen, fused attention. Lengths are of one text; batches are of
texts of 128 tokens (--at). The plain pass is a forward and a backward to the token states, and
takes turns with the methods; the figure is the best round, in CPU seconds of this process. Memory
is the peak of what torch allocates for the work (see benchmarks/memory.py). A pass that takes more
than ten seconds is timed once, its first run.

A cell is a method at a length and a batch size. A cell is left out and listed if one run would take
more than --budget seconds or more than --memory GiB. The estimate comes from the longest text
before: it grows with the square of the length and in proportion to the batch. `attention_flow`
stops at 128 tokens: its maximum flows take too long.

The growth exponent is the slope of log time, or log memory, over log length between the two longest
texts: 1 is linear, 2 is quadratic.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

import turns
import whyformer as wf
from memory import peak
from report import finish
from subjects import Subject, bert, of_bert

PLAIN = "forward+backward"
LENGTHS = (64, 128, 256, 512, 1024, 2048)
BATCHES = (1, 8, 32)
MOST_TOKENS = {"attention_flow": 128}
LONG = 10.0  # seconds of a run that is not repeated


class Cell(NamedTuple):
    """What one method took at one point."""

    method: str
    tokens: int
    batch: int
    seconds: float
    bytes: int


class Limits(NamedTuple):
    """What a single run may take."""

    seconds: float
    bytes: float


def points(lengths: Iterable[int], batches: Iterable[int], at: int) -> Iterator[tuple[int, int]]:
    """(tokens, batch): single texts by length, then batches of texts of one length."""
    yield from ((tokens, 1) for tokens in sorted(lengths))
    yield from ((at, batch) for batch in sorted(batches) if batch > 1)


def unfit(cells: Sequence[Cell], method: str, tokens: int, batch: int, limits: Limits) -> str:
    """Return why a cell is left out; empty if it is not."""
    if tokens > MOST_TOKENS.get(method, tokens):
        return f"over {MOST_TOKENS[method]} tokens"
    known = [c for c in cells if c.method == method and c.tokens <= tokens and c.batch <= batch]
    if not known:
        return ""
    last = max(known, key=lambda cell: (cell.tokens, cell.batch))
    growth = (tokens / last.tokens) ** 2 * batch / last.batch
    if last.seconds * growth > limits.seconds:
        return f"{last.seconds * growth:.0f} s expected"
    if last.bytes * growth > limits.bytes:
        return f"{last.bytes * growth / 2**30:.0f} GiB expected"
    return ""


def measure(subject: Subject, methods: Sequence[str], rounds: int) -> Iterator[Cell]:
    """The cells of one point."""
    work: dict[str, Callable[[], Any]] = {PLAIN: subject.plain}
    for name in methods:
        work[name] = partial(wf.explain, subject.inputs, subject.model, method=name, target=0)
    seconds = turns.best(work, 1)
    again = {name: job for name, job in work.items() if seconds[name] < LONG}
    seconds |= turns.best(again, rounds)
    batch, tokens = subject.inputs["input_ids"].shape
    for name, job in work.items():
        yield Cell(name, tokens, batch, seconds[name], peak(job))


def exponents(cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """{method: slopes of time and memory between its two longest single texts}."""
    found = {}
    for method in dict.fromkeys(cell.method for cell in cells):
        own = sorted(
            (c for c in cells if c.method == method and c.batch == 1), key=lambda c: c.tokens
        )
        if len(own) > 1:
            low, high = own[-2:]
            steps = math.log(high.tokens / low.tokens)
            found[method] = {
                "between": [low.tokens, high.tokens],
                "seconds": math.log(high.seconds / low.seconds) / steps,
                "bytes": math.log(max(high.bytes, 1) / max(low.bytes, 1)) / steps,
            }
    return found


def show(cells: Sequence[Cell], plain: Cell) -> None:
    print(f"\n{plain.tokens} tokens x {plain.batch}")
    for cell in cells:
        times, space = cell.seconds / plain.seconds, cell.bytes / plain.bytes
        figures = f"{cell.seconds:9.3f} s {times:6.2f}x {cell.bytes / 2**20:9.1f} MiB {space:6.2f}x"
        print(f"  {cell.method:26s}{figures}", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--at", type=int, default=128, help="tokens of a batch's texts")
    parser.add_argument("--methods", default=",".join(wf.methods()))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of one run")
    parser.add_argument("--memory", type=float, default=8.0, help="GiB of one run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    torch.set_num_threads(options.threads)
    lengths = [int(n) for n in options.lengths.split(",")]
    batches = [int(n) for n in options.batches.split(",")]
    limits = Limits(options.budget, options.memory * 2**30)
    model = bert(1, 1, options.layers, options.hidden, room=max(*lengths, options.at)).model
    cells: list[Cell] = []
    left_out: list[dict[str, Any]] = []
    for tokens, batch in points(lengths, batches, options.at):
        wanted = [PLAIN, *options.methods.split(",")]
        why = {name: unfit(cells, name, tokens, batch, limits) for name in wanted}
        if why[PLAIN]:
            why = dict.fromkeys(wanted, f"the plain pass: {why[PLAIN]}")
        left_out += [
            {"method": name, "tokens": tokens, "batch": batch, "why": why[name]}
            for name in wanted
            if why[name]
        ]
        if why[PLAIN]:
            continue
        able = [name for name in wanted[1:] if not why[name]]
        found = [*measure(of_bert(model, tokens, batch), able, options.rounds)]
        show(found, found[0])
        cells += found
    for cell in left_out:
        print(f"left out: {cell['method']} at {cell['tokens']} x {cell['batch']}: {cell['why']}")
    results = {
        "layers": options.layers,
        "threads": options.threads,
        "rounds": options.rounds,
        "cells": [cell._asdict() for cell in cells],
        "exponents": exponents(cells),
        "left_out": left_out,
    }
    return finish(results, [], options.json)


if __name__ == "__main__":
    raise SystemExit(main())

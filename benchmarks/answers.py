"""Time and memory of an explained answer against plain forward+backward passes, in one run.

    python benchmarks/answers.py [--layers 24] [--prompt 512] [--answer 32] [--rounds 3]
                                 [--methods libragrad,...] [--without-memory] [--json FILE]

Qwen2.5-0.5B shape with random weights: hidden size 896, 14 heads, 2 of keys and values, MLP of
4,864, tied embeddings of 151,936 tokens. The plain pass reads prompt and answer, weights frozen; it
goes back from one logit to the token states that enter the first block. Explaining an answer of N
tokens one by one takes N of these at least.

- `each token` has one row per token of the answer; its reference is N plain passes.
- `whole answer` is one row, the sum of all logits; its reference is one plain pass.
- memory is the growth of the resident size to its peak, in a forked process; its reference is one
  pass.

With one thread the time is the CPU time of this process, the best of the rounds, which all take
turns. `plain, one logit` is the plain pass that computes the logits of one position alone.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor, nn

import turns
import whyformer as wf
from report import finish, limit_note

PLAIN, ONE_LOGIT = "plain", "plain, one logit"
TOKENS, WHOLE = "each token", "whole answer"
# Of the default method, over the reference: time and memory.
LIMITS = {TOKENS: {"s": 0.45, "MiB": 1.5}, WHOLE: {"s": 1.1, "MiB": 1.5}}
EACH = {TOKENS: "token", WHOLE: "answer"}


def model_of(layers: int, hidden: int, vocabulary: int) -> Any:
    """A Qwen2 with random weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 4864 // 896,
        num_hidden_layers=layers,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(config).eval().requires_grad_(False)


def limit_of(name: str, kind: str) -> float | None:
    """The largest ratio of the default method's time ("s") or memory ("MiB")."""
    method, _, rows = name.partition(", ")
    limits = LIMITS.get(rows) if method == "libragrad" else None
    return None if limits is None else limits[kind]


def plain(model: Any, ids: Tensor, **settings: Any) -> None:
    """One logit and its gradient at the token states."""
    states: list[Tensor] = []

    def enter(module: nn.Module, args: tuple) -> tuple:
        states.append(args[0].detach().requires_grad_())
        return (states[0], *args[1:])

    handle = model.model.layers[0].register_forward_pre_hook(enter)
    try:
        output = model(input_ids=ids, use_cache=False, **settings)
        torch.autograd.grad(output.logits[:, -2 if not settings else -1, 0].sum(), states[0])
    finally:
        handle.remove()


def peak_growth(work: Callable[[], Any]) -> int:
    """The most bytes by which a forked process grows while the work runs.

    torch's profiler would keep an event for each allocation: more than the memory of this machine
    for the many backward passes of an answer.
    """
    ctypes.CDLL(None).malloc_trim(0)  # so that the process cannot reuse what earlier work freed
    reading, writing = os.pipe()
    if not (child := os.fork()):
        before = _largest_resident_size()
        work()
        os.write(writing, str(_largest_resident_size() - before).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return int(found)


def _largest_resident_size() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--answer", type=int, default=32, help="tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", default="libragrad")
    parser.add_argument("--without-memory", action="store_true", help="measure time alone")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    model = model_of(options.layers, options.hidden, options.vocabulary)
    length = options.prompt + options.answer
    ids = torch.randint(1, min(1000, options.vocabulary), (1, length))
    prompt, answer = ids[:, : options.prompt], ids[:, options.prompt :].tolist()
    inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}

    work: dict[str, Callable[[], Any]] = {
        PLAIN: partial(plain, model, ids),
        ONE_LOGIT: partial(plain, model, ids, logits_to_keep=1),
    }
    references: dict[str, int] = {PLAIN: 1, ONE_LOGIT: 1}
    for method in options.methods.split(","):
        for title, each in EACH.items():
            name = f"{method}, {title}"
            work[name] = partial(wf.explain, inputs, model, method=method, target=answer, each=each)
            references[name] = options.answer if title == TOKENS else 1
    for name, job in work.items():
        if not name.endswith(TOKENS):
            job()  # imports, caches, and the check of the plain value, which runs once
    title = f"{options.layers} layers, {options.prompt} + {options.answer} tokens"
    print(f"{title} (1 thread, best of {options.rounds})", flush=True)
    exceeded: list[str] = []

    def show(figures: Mapping[str, float], per: Mapping[str, int], unit: float, kind: str) -> None:
        for name, figure in figures.items():
            ratio = figure / (per[name] * figures[PLAIN])
            limit = limit_of(name, kind)
            print(
                f"  {kind:6s} {name:28s} {figure / unit:9.2f}  {ratio:5.2f}x of {per[name]} plain"
                f"{limit_note(limit)}",
                flush=True,
            )
            if limit and ratio > limit:
                exceeded.append(f"{kind} of {name}: {ratio:.2f}x > {limit:.2f}x")

    seconds = turns.best(work, options.rounds)
    show(seconds, references, 1, "s")
    bytes_of = (
        {} if options.without_memory else {name: peak_growth(job) for name, job in work.items()}
    )
    show(bytes_of, dict.fromkeys(work, 1), 2**20, "MiB")
    results = {"title": title, "references": references, "seconds": seconds, "bytes": bytes_of}
    return finish(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())

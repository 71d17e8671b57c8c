"""Time and memory of language models with long prompts, with and without checkpoints.

    python benchmarks/llm.py [--shapes qwen,llama] [--lengths 512,2048,8192] [--method libragrad]
                             [--layers N] [--threads 1] [--work plain,...] [--json FILE]
    python benchmarks/llm.py --peer [--lengths 512] [--layers N] [--rounds 3] [--json FILE]

Random weights in float32, one prompt, the last token's logit of one word. "qwen" has the shape of
Qwen2.5-0.5B, "llama" that of Llama 7B with four layers and a small vocabulary. Each figure is from
a separate process, which does its work once: CPU time of the process, and its largest resident
size, weights and libraries included.

The work:
  plain                forward, and backward to the states that enter the first block
  plain checkpointed   the same, with torch.utils.checkpoint around each block
  explain              the method, as users call it
  explain checkpointed the same with memory="checkpoint"

"explain" runs the model once more without rules, to check that it computes the same value. That
pass is part of its time here; later calls with inputs of this size do without.

`--peer` compares `attn_lrp` with LXT's AttnLRP on the Qwen shape, in one process and in turn.
whyformer asks the model for the scores of the last token alone (`logits_to_keep`); plain passes and
LXT are measured both as people write them, with all scores, and with the last scores alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor, nn
from transformers.initialization import no_init_weights

import stand_ins
import turns
from report import finish, limit_note

PLAIN, CHECKPOINTED = "plain", "plain checkpointed"
EXPLAIN, CHECKPOINT = "explain", "explain checkpointed"
WORK = (PLAIN, CHECKPOINTED, EXPLAIN, CHECKPOINT)
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen": (
        "Qwen2",
        {
            "vocab_size": 151_936,
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
        },
    ),
    "llama": (
        "Llama",
        {
            "vocab_size": 1000,
            "hidden_size": 4096,
            "intermediate_size": 11_008,
            "num_hidden_layers": 4,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
        },
    ),
}
TARGET = 7  # the word whose logit is explained
# For the Llama shape at this length: GiB, and time against plain passes with checkpoints.
JUDGED, RESIDENT_LIMIT, TIME_LIMIT = 8192, 14.0, 1.5
# Of `attn_lrp`, over other work with all scores.
LXT, LAST = "LXT AttnLRP", ", last scores"
PEER_TIME_LIMITS = {PLAIN: 1.05, LXT: 1.0}


def model_and_inputs(shape: str, tokens: int, layers: int) -> tuple[Any, dict[str, Tensor]]:
    """A model with random weights, and one prompt."""
    import transformers

    name, sizes = SHAPES[shape]
    sizes = sizes | ({"num_hidden_layers": layers} if layers else {})
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(max_position_embeddings=tokens, **sizes)
    with no_init_weights():
        model = getattr(transformers, f"{name}ForCausalLM")(config)
    fill_weights(model)
    ids = torch.randint(10, 1000, (1, tokens))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return model.eval().requires_grad_(False), inputs


def fill_weights(model: Any) -> None:
    """Fill the weights once, with a spread of 0.02; torch and transformers both do it otherwise.

    Norms have 1 and biases 0. One block is drawn, and the others have the same numbers: drawing
    takes longer than the passes.
    """
    blocks = model.model.layers
    drawn = [*model.model.embed_tokens.parameters(), *blocks[0].parameters()]
    drawn += [*model.lm_head.parameters()]
    for weight in drawn:
        if weight.dim() > 1:
            weight.data.normal_(0, 0.02)
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            weight.data.fill_(0.0 if name.endswith("bias") else 1.0)
    for block in list(blocks)[1:]:
        for weight, first in zip(block.parameters(), blocks[0].parameters(), strict=True):
            weight.data.copy_(first)


def plain(model: Any, inputs: dict[str, Tensor], **settings: Any) -> Tensor:
    """Gradient x states where the states enter the first block, (batch, tokens)."""
    states: list[Tensor] = []

    def enter(module: nn.Module, args: tuple) -> tuple:
        states.append(args[0].detach().requires_grad_())
        return (states[0], *args[1:])

    handle = model.model.layers[0].register_forward_pre_hook(enter)
    try:
        value = model(**inputs, use_cache=False, **settings).logits[:, -1, TARGET].sum()
    finally:
        handle.remove()
    (gradient,) = torch.autograd.grad(value, states[0])
    return (gradient * states[0]).sum(-1).detach()


def work_of(what: str, method: str, model: Any, inputs: dict[str, Tensor]) -> Callable[[], Any]:
    """One piece of work, ready to run."""
    import whyformer as wf

    if what == CHECKPOINTED:
        # transformers checkpoints its blocks in training mode only; these models have no dropout.
        model.train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if what in (PLAIN, CHECKPOINTED):
        return lambda: plain(model, inputs)
    memory = "checkpoint" if what == CHECKPOINT else None
    return lambda: wf.explain(inputs, model, method=method, target=TARGET, memory=memory)


def measure_here(shape: str, what: str, tokens: int, method: str, layers: int) -> None:
    """Print CPU seconds, elapsed seconds and resident GiB of one piece of work."""
    model, inputs = model_and_inputs(shape, tokens, layers)
    # Imports and caches of the libraries are not part of the work.
    work_of(what, method, *model_and_inputs_small(shape))()
    work = work_of(what, method, model, inputs)
    cpu, clock = time.process_time(), time.perf_counter()
    work()
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    print(cpu, clock, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def model_and_inputs_small(shape: str) -> tuple[Any, dict[str, Tensor]]:
    """The same kind of model with little in it."""
    import transformers

    name, _ = SHAPES[shape]
    config = getattr(transformers, f"{name}Config")(
        vocab_size=1000,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    ids = torch.arange(10, 20)[None]
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval().requires_grad_(False)
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def measure(shape: str, what: str, tokens: int, options: Any) -> dict[str, float]:
    """Return the same, measured in a separate process."""
    command = [sys.executable, __file__, "--one", shape, what, str(tokens)]
    command += ["--method", options.method, "--layers", str(options.layers)]
    command += ["--threads", str(options.threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"measuring {what} on {shape} failed:\n{done.stderr}")
    cpu, clock, resident = (float(word) for word in done.stdout.split()[-3:])
    return {"cpu": cpu, "elapsed": clock, "resident_gib": resident}


def compare_lengths(options: Any) -> int:
    """Measure every piece of work for each shape and length."""
    results: dict[str, Any] = {
        "torch": torch.__version__,
        "threads": options.threads,
        "method": options.method,
        "shapes": {},
    }
    exceeded = []
    for shape in options.shapes.split(","):
        layers = options.layers or SHAPES[shape][1]["num_hidden_layers"]
        found = results["shapes"].setdefault(shape, {"layers": layers, "lengths": {}})["lengths"]
        for tokens in (int(n) for n in options.lengths.split(",")):
            print(f"\n{shape}, {layers} layers, {tokens} tokens, {options.threads} thread(s)")
            figures = found.setdefault(tokens, {})
            for what in options.work.split(","):
                figures[what] = one = measure(shape, what, tokens, options)
                over = figures.get(CHECKPOINTED)
                ratio = one["cpu"] / over["cpu"] if over else None
                judged = (shape, tokens, what) == ("llama", JUDGED, CHECKPOINT)
                limits = (TIME_LIMIT, RESIDENT_LIMIT) if judged else (None, None)
                times = "" if ratio is None else f"{ratio:5.2f}x of checkpointed"
                print(
                    f"  {what:20s} {one['cpu']:8.1f} s CPU {one['elapsed']:8.1f} s elapsed"
                    f" {one['resident_gib']:6.2f} GiB{limit_note(limits[1])}"
                    f"  {times}{limit_note(limits[0])}",
                    flush=True,
                )
                if judged and one["resident_gib"] > RESIDENT_LIMIT:
                    exceeded.append(f"resident GiB: {one['resident_gib']:.2f} > {RESIDENT_LIMIT}")
                if judged and ratio is not None and ratio > TIME_LIMIT:
                    exceeded.append(f"time: {ratio:.2f}x > {TIME_LIMIT}x")
    return finish(results, exceeded, options.json)


class Interfaces(dict[str, Any]):
    """LXT's attention functions, in the shape in which transformers 5 looks for them."""

    def get_interface(self, name: str, default: Any) -> Any:
        """Return the attention function of this name."""
        return self.get(name, default)


@contextmanager
def patched_by_lxt() -> Iterator[Any]:
    """Patch transformers' Qwen2 as LXT does, and undo it afterwards."""
    from lxt.efficient import monkey_patch
    from transformers.models.qwen2 import modeling_qwen2

    before = dict(vars(modeling_qwen2))
    kinds = [kind for kind in before.values() if isinstance(kind, type)]
    kinds = [kind for kind in (*kinds, nn.Dropout, nn.LayerNorm) if "forward" in vars(kind)]
    forwards = {kind: vars(kind)["forward"] for kind in kinds}
    try:
        monkey_patch(modeling_qwen2, verbose=False)
        modeling_qwen2.ALL_ATTENTION_FUNCTIONS = Interfaces(modeling_qwen2.ALL_ATTENTION_FUNCTIONS)
        yield modeling_qwen2
    finally:
        vars(modeling_qwen2).clear()
        vars(modeling_qwen2).update(before)
        for kind, forward in forwards.items():
            kind.forward = forward  # type: ignore[attr-defined]


def compare_with_lxt(options: Any) -> int:
    """Time `attn_lrp` and LXT in turn; skipped with the reason if LXT cannot be used."""
    import whyformer as wf

    results: dict[str, Any] = {"threads": options.threads, "lengths": {}}
    exceeded = []
    try:
        stand_ins.lxt()
    except ImportError as error:
        results["skipped"] = stand_ins.one_line(error)
        print(f"LXT is left out: {results['skipped']}")
    for tokens in (int(n) for n in options.lengths.split(",")):
        model, inputs = model_and_inputs("qwen", tokens, options.layers)

        def ours(model: Any = model, inputs: Any = inputs) -> Tensor:
            return wf.explain(inputs, model, method="attn_lrp", target=TARGET).scores

        def lxt(model: Any = model, inputs: Any = inputs, **settings: Any) -> Tensor:
            with patched_by_lxt():
                return plain(model, inputs, **settings)

        work: dict[str, Callable[[], Any]] = {
            "attn_lrp": ours,
            PLAIN: partial(plain, model, inputs),
            PLAIN + LAST: partial(plain, model, inputs, logits_to_keep=1),
        }
        if "skipped" not in results:
            work |= {LXT: lxt, LXT + LAST: partial(lxt, logits_to_keep=1)}
        for job in work.values():
            job()
        seconds = turns.best(work, options.rounds)
        found: dict[str, Any] = {"seconds": seconds}
        results["lengths"][tokens] = found
        layers = options.layers or SHAPES["qwen"][1]["num_hidden_layers"]
        print(f"\nqwen, {layers} layers, {tokens} tokens, {options.threads} thread(s)")
        for name, one in seconds.items():
            ratio, limit = seconds["attn_lrp"] / one, PEER_TIME_LIMITS.get(name)
            print(f"  {name:24s} {one:8.2f} s  attn_lrp {ratio:5.2f}x of it{limit_note(limit)}")
            if limit and ratio > limit:
                exceeded.append(f"attn_lrp over {name} at {tokens} tokens: {ratio:.2f}x > {limit}x")
        if LXT in work:
            theirs = lxt()
            found["difference"] = float((ours() - theirs).abs().max() / theirs.abs().max())
            print(
                f"  scores of attn_lrp and LXT differ by {found['difference']:.1e} of the largest"
            )
    return finish(results, exceeded, options.json)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shapes", default="qwen,llama")
    parser.add_argument("--lengths", default="512,2048,8192")
    parser.add_argument("--method", default="libragrad")
    parser.add_argument("--layers", type=int, default=0, help="instead of the shape's own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", default=",".join(WORK))
    parser.add_argument("--peer", action="store_true", help="compare attn_lrp with LXT")
    parser.add_argument("--rounds", type=int, default=3, help="with --peer")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    torch.set_num_threads(options.threads)
    if options.one:
        shape, what, tokens = options.one
        measure_here(shape, what, int(tokens), options.method, options.layers)
        return 0
    return compare_with_lxt(options) if options.peer else compare_lengths(options)


if __name__ == "__main__":
    raise SystemExit(main())

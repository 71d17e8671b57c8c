"""Time of each method against a plain forward+backward to the inputs, in one run.

    python benchmarks/speed.py [--threads 1] [--rounds 10] [--json FILE] [--methods a,b,...]
                               [--shapes bert,vit,lxmert,detr,sst2] [--image 800x1066]

Every round times the plain pass and every method in turn, so that noise hits all alike. The figure
is the best round of each, and ratios are of these. With one thread it is the CPU time of this
process, which equals the elapsed time on an idle machine. With more threads it is the elapsed time:
the machine has to be idle, and limits are not checked.
Weights are random: BERT-base shape with 128 tokens, ViT-B/16 shape with 197, LXMERT-base shape with
20 tokens and 36 regions, DETR-R50 shape with an image of --image pixels (height x width).
The small end is the bundled `sst2` model with a sentence of 12 tokens, where the work around the
two passes counts: from prepared tensors, and from the text, with its tokenization on both sides.
`lrp_ah_ln_identity` is `lrp_ah_ln` with activations="identity".

`libragrad with trust` and `libragrad without trust` are the same call with and without the checks
of `attribution.trust`: they may cost 2 % where the model is large. The plain forward pass that is
compared with runs once per model and size, before the rounds.

The plain backward pass goes to the token states that enter the first block of each stream, weights
frozen. DETR has a convolutional net below these, and two plain passes are timed for it: to the
states that enter the encoder, and to the pixels. Limits are against the first, the cheaper one:
no method of those timed here needs the gradient of that net either.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor, nn

import turns
import whyformer as wf
from report import finish, limit_note
from whyformer.models.load import load_model

FORWARD, PLAIN, PIXELS = "forward", "forward+backward", "forward+backward to pixels"
FROM_TEXT = " from text"
TRUST, NO_TRUST = "libragrad with trust", "libragrad without trust"
# Methods with options, by the names that --methods takes.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "lrp_ah_ln_identity": ("lrp_ah_ln", {"activations": "identity"}),
    "gae_balanced": ("gae", {"gradient": "balanced"}),
    "attn_lrp_average": ("attn_lrp", {"average": 0.5}),
}
LIBRAGRAD: dict[str, Any] = {"method": "libragrad"}
# What each method must not exceed: (reference, ratio).
LIMITS = {
    "lrp_ah_ln": (PLAIN, 1.00),
    "lrp_ah_ln_identity": (PLAIN, 1.00),
    "gae": (PLAIN, 1.10),
    "libragrad": (PLAIN, 1.00),
    "gae_balanced": (PLAIN, 1.15),
    "blend": (PLAIN, 1.15),
    "rollout": (FORWARD, 1.15),
    "transformer_attribution": (PLAIN, 2.40),
    TRUST: (NO_TRUST, 1.02),
}
# For models with several streams; other methods are timed there for information only.
SEVERAL = {"gae": (PLAIN, 1.30)}
# For one short sentence.
SMALL = {"auto": (PLAIN, 1.30), "auto" + FROM_TEXT: (PLAIN + FROM_TEXT, 1.30)}


@dataclass(frozen=True)
class Case:
    """A model with its inputs, and what is explained."""

    title: str
    model: nn.Module
    inputs: dict[str, Tensor]
    entries: tuple[str, ...]  # the first block of each stream that is read
    target: Any
    value: Callable[[Any], Tensor]  # the same target, from the model's output
    limits: dict[str, tuple[str, float]]
    pixels: bool = False  # whether to also time a plain pass to the pixels
    text: str = ""  # to also time the passes from the text
    tokenizer: Any = None
    repeats: int = 1  # times per round, for passes that are short


def bert() -> Case:
    """BERT-base with 128 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    ids = torch.randint(1000, 30000, (1, 128))
    return Case(
        "BERT-base, 128 tokens",
        BertForSequenceClassification(BertConfig()),
        {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
        ("bert.encoder.layer.0",),
        0,
        lambda output: output.logits[:, 0],
        LIMITS,
    )


def vit() -> Case:
    """ViT-B/16 with 197 tokens."""
    from transformers import ViTConfig, ViTForImageClassification

    return Case(
        "ViT-B/16, 197 tokens",
        ViTForImageClassification(ViTConfig()),
        {"pixel_values": torch.randn(1, 3, 224, 224)},
        ("vit.layers.0",),
        0,
        lambda output: output.logits[:, 0],
        LIMITS,
    )


def lxmert() -> Case:
    """LXMERT-base, 9 language, 5 region and 5 cross layers, with 20 tokens and 36 regions."""
    from transformers import LxmertConfig, LxmertForQuestionAnswering

    ids = torch.randint(1000, 30000, (1, 20))
    corners = torch.rand(1, 36, 2, 2).sort(dim=2).values.flatten(2)
    return Case(
        "LXMERT-base, 20 tokens, 36 regions",
        LxmertForQuestionAnswering(LxmertConfig()),
        {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "visual_feats": torch.randn(1, 36, 2048),
            "visual_pos": corners,
        },
        ("lxmert.encoder.layer.0", "lxmert.encoder.r_layers.0"),
        0,
        lambda output: output.question_answering_score[:, 0],
        SEVERAL,
    )


def detr(size: tuple[int, int]) -> Case:
    """DETR on a ResNet-50, 100 queries, with an image of that height and width."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(out_features=["stage4"])
    model = DetrForObjectDetection(
        DetrConfig(use_timm_backbone=False, backbone_config=backbone)
    ).eval()
    pixels = torch.randn(1, 3, *size)
    normalise(model.model.backbone, pixels)
    return Case(
        f"DETR-R50, {size[0]} x {size[1]} pixels",
        model,
        {"pixel_values": pixels},
        ("model.encoder.layers.0",),
        wf.query(0, 0),
        lambda output: output.logits[:, 0, 0],
        SEVERAL,
        pixels=True,
    )


def sst2() -> Case:
    """The bundled text classifier with a sentence of 12 tokens."""
    loaded = load_model("sst2")
    assert loaded.processor is not None
    text = "a gripping, beautifully acted film with a weak end"
    inputs = dict(loaded.processor(text, return_tensors="pt"))
    count = inputs["input_ids"].shape[1]
    return Case(
        f"bundled sst2, {count} tokens",
        loaded.module,
        inputs,
        ("bert.encoder.layer.0",),
        0,
        lambda output: output.logits[:, 0],
        SMALL,
        text=text,
        tokenizer=loaded.processor,
        repeats=10,
    )


@torch.no_grad()
def normalise(backbone: nn.Module, pixels: Tensor) -> None:
    """Set the statistics of the frozen batch normalisation from the image.

    With the mean 0 and deviation 1 that it is built with, each stage makes larger numbers than the
    one before. The first attention then has
    one large weight per row and numbers below 1e-38 elsewhere, with which processors compute a
    hundred times more slowly.
    """

    def measured(module: Any, args: tuple) -> None:
        module.running_mean.copy_(args[0].mean((0, 2, 3)))
        module.running_var.copy_(args[0].var((0, 2, 3)))

    norms = [module for module in backbone.modules() if hasattr(module, "running_var")]
    handles = [module.register_forward_pre_hook(measured) for module in norms]
    backbone(pixels, torch.ones(1, *pixels.shape[2:], dtype=torch.bool))
    for handle in handles:
        handle.remove()


def plain(case: Case, to: str | None) -> None:
    """The cheapest way to a logit and its gradient at the token states, or at the pixels."""
    states: list[Tensor] = []
    inputs = dict(case.inputs)

    def enter(module: nn.Module, args: tuple) -> tuple:
        states.append(args[0].detach().requires_grad_(to is not None))
        return (states[-1], *args[1:])

    handles = []
    if to == PIXELS:
        states.append(inputs["pixel_values"].detach().clone().requires_grad_())
        inputs["pixel_values"] = states[0]
    else:
        blocks = [case.model.get_submodule(name) for name in case.entries]
        handles = [block.register_forward_pre_hook(enter) for block in blocks]
    try:
        with torch.set_grad_enabled(to is not None):
            value = case.value(case.model(**inputs))
        if to is not None:
            torch.autograd.grad(value.sum(), states)
    finally:
        for handle in handles:
            handle.remove()


def explain_without_trust(case: Case) -> None:
    """The same call as with trust, with every check replaced by nothing."""
    from unittest.mock import patch

    from whyformer.pipeline import explain_batch

    with patch.multiple(
        explain_batch,
        forward_reason=lambda *run: None,
        judge_run=lambda attribution, *run: attribution,
        judge_values=lambda attribution: attribution,
        refuse_or_warn=lambda *found: None,
    ):
        wf.explain(case.inputs, case.model, target=case.target, **LIBRAGRAD)


def measure(case: Case, methods: list[str], rounds: int, threads: int = 1) -> dict[str, float]:
    """Best seconds over the rounds, by what was run."""
    case.model.eval().requires_grad_(False)
    work: dict[str, Callable[[], Any]] = {
        FORWARD: lambda: plain(case, None),
        PLAIN: lambda: plain(case, PLAIN),
    }
    if case.pixels:
        work[PIXELS] = lambda: plain(case, PIXELS)
    if case.text:
        work[PLAIN + FROM_TEXT] = lambda: plain(
            replace(case, inputs=dict(case.tokenizer(case.text, return_tensors="pt"))), PLAIN
        )
    for name in methods:
        method, chosen = VARIANTS.get(name, (name, {}))
        explain = partial(wf.explain, method=method, target=case.target, **chosen)
        work[name] = partial(explain, case.inputs, case.model)
        if case.text:
            work[name + FROM_TEXT] = partial(
                explain, case.text, case.model, processor=case.tokenizer
            )
    work[NO_TRUST] = partial(explain_without_trust, case)
    work[TRUST] = partial(wf.explain, case.inputs, case.model, target=case.target, **LIBRAGRAD)
    for job in work.values():
        job()
    clock = time.process_time if threads == 1 else time.perf_counter
    return turns.best(work, rounds * case.repeats, clock)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--methods", default=",".join(name for name in LIMITS if name != TRUST))
    parser.add_argument("--shapes", default="bert,vit,lxmert,detr,sst2")
    parser.add_argument("--image", default="800x1066", help="of DETR: height x width")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    height, width = (int(side) for side in options.image.split("x"))
    cases: dict[str, Callable[[], Case]] = {
        "bert": bert,
        "vit": vit,
        "lxmert": lxmert,
        "detr": lambda: detr((height, width)),
        "sst2": sst2,
    }
    results: dict[str, Any] = {"threads": options.threads, "torch": torch.__version__, "shapes": {}}
    exceeded = []
    for shape in options.shapes.split(","):
        torch.manual_seed(0)
        case = cases[shape]()
        best = measure(case, options.methods.split(","), options.rounds, options.threads)
        results["shapes"][case.title] = best
        print(f"\n{case.title} ({options.threads} thread, best of {options.rounds * case.repeats})")
        for name, seconds in best.items():
            own = PLAIN + FROM_TEXT * name.endswith(FROM_TEXT)
            reference, limit = case.limits.get(name, (own, None))
            limit = limit if options.threads == 1 else None
            ratio = seconds / best[reference]
            figure = f"{seconds * 1e3:8.1f} ms   {ratio:5.2f}x of {reference}"
            print(f"  {name:30s} {figure}{limit_note(limit)}", flush=True)
            if limit and ratio > limit:
                exceeded.append(f"{name} on {case.title}: {ratio:.2f}x > {limit:.2f}x")
    return finish(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())

"""A plain forward: what a model says about samples that have lost some of their tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from whyformer.capture.scope import borrowed, hooked
from whyformer.errors import InputError, ModelError
from whyformer.inputs.forward import embeddings_of
from whyformer.inputs.heads import CLASSES, NEXT_TOKEN, NUMBER, head_of
from whyformer.inputs.prepared import Prepared

ANSWERS = (CLASSES, NUMBER, NEXT_TOKEN)


def outcome(
    module: nn.Module,
    prepared: Prepared,
    silenced: Tensor | None = None,
    silence: str = "zero",
) -> Tensor:
    """Logits (batch, classes); of a language model those of the last token.

    Where `silenced` is True the word embedding is overwritten, by zeros or by the mean of all.
    """
    hooks: list[tuple[nn.Module, str, Any]] = []
    if silenced is not None:
        table = embeddings_of(module)
        if table is None:
            raise InputError(
                f"fill={silence!r} overwrites word embeddings, and {type(module).__name__} has no"
                " table of them; fill with 'drop', 'mask' or 'unknown'"
            )
        where = silenced.unsqueeze(-1)
        put = table.weight.detach().mean(0) if silence == "mean" else 0.0

        def overwrite(owner: nn.Module, given: Any, states: Tensor) -> Tensor:
            return states.masked_fill(where, 0.0) + where * put

        hooks.append((table, "after", overwrite))
    with borrowed(module), torch.no_grad(), hooked(hooks):
        output = module(**prepared.arguments)
    spoken = prepared.of("generated") or prepared
    head = head_of(output, module, spoken)
    if head.kind not in ANSWERS:
        raise ModelError(
            f"{type(module).__name__} answers with {head.kind}: what is left of them when tokens go"
            " cannot be measured; use metrics that do not run the model again"
        )
    if head.kind != NEXT_TOKEN:
        return head.scores
    mask = prepared.arguments.get("attention_mask")
    last = torch.full((len(head.scores),), head.scores.shape[1] - 1)
    if isinstance(mask, Tensor) and mask.shape == head.scores.shape[:2]:
        last = mask.sum(1).cpu() - 1
    return head.scores[torch.arange(len(last)), last]

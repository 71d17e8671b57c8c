"""Targets that read padding: what they read there is not part of the scores, and is said."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from whyformer.attribution import Reason
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run

# The share of all relevance that may lie on padding: more than rounding leaves there.
ROUNDING = 1e-6


def padding_reads(
    run: Run, found: Mapping[str, Tensor], masks: Mapping[str, Tensor]
) -> tuple[Reason, ...]:
    """Return one reason for each stack in which padding is read.

    Args:
        run: The model on a batch.
        found: By stack: scores (batch, tokens), or gradients (batch, tokens, hidden) where the
            head reads the states. Both are 0 at padding if nothing reads it.
        masks: False at padding, (batch, tokens) by stack.
    """
    reasons = []
    for stack, tensor in found.items():
        mask = masks.get(stack)
        if mask is None or mask.shape != tensor.shape[:2] or mask.all():
            continue
        size = wide(tensor.detach()).abs()
        size = size.sum(-1) if size.dim() == 3 else size
        on_padding = size.masked_fill(mask.to(size.device), 0)
        share = on_padding.sum(1) / size.sum(1).clamp(min=1e-300)
        samples = (share > ROUNDING).nonzero().flatten().tolist()
        if samples:
            places = [(i, int(on_padding[i].argmax())) for i in samples]
            reasons.append(_reason(run, stack, places, float(share.max())))
    return tuple(reasons)


def _reason(run: Run, stack: str, places: list[tuple[int, int]], share: float) -> Reason:
    """The finding about (sample, column) places of a stack."""
    layout = run.batch.layout if run.stacks.only is not None else None
    names = tuple(
        f"sample {i} position {column if layout is None else layout.position(i, column)}"
        for i, column in places
    )
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    text = (
        f"The explained value reads padding of '{stack}' ({', '.join(names[:3])}{more}), and no"
        f" score shows that part. Pad on the left, or name a real token: target=wf.token(position)."
    )
    return Reason("target", "warning", text, names, share)

"""The logits of the kept tokens, and the class that a metric follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.engine.rerun import Rerun
from whyformer.errors import InputError

Against = Literal["predicted", "target", "label"]


class Predictor(Protocol):
    """Logits (batch, classes) of the samples with only the kept tokens of the named streams.

    `kept` maps a stream to a mask (batch, tokens), False at padding; if pixels are removed the
    mask is (batch, height * width). Other streams are unchanged. The callable decides what
    replaces removed tokens. Evaluations use `Rerun`.
    """

    def __call__(self, kept: Mapping[str, Tensor]) -> Tensor: ...


def kept_logits(rerun: Predictor, stream: str, kept: Tensor) -> Tensor:
    """Logits of the kept tokens of one stream, (batch, classes), in double precision."""
    return _check_logits(rerun({stream: kept}), kept)


def kept_logits_each(rerun: Predictor, stream: str, masks: Sequence[Tensor]) -> list[Tensor]:
    """Logits of each mask, (batch, classes) each; a `Rerun` gets all masks at once."""
    if not isinstance(rerun, Rerun):
        return [kept_logits(rerun, stream, kept) for kept in masks]
    found = rerun.logits_each(stream, masks)
    return [_check_logits(logits, kept) for logits, kept in zip(found, masks, strict=True)]


def _check_logits(logits: Tensor, kept: Tensor) -> Tensor:
    """The logits in double precision on the mask's device; raise if they are malformed."""
    logits = logits.detach()
    if logits.ndim != 2 or len(logits) != len(kept):
        raise InputError(
            f"rerun gave a tensor {tuple(logits.shape)}; expected ({len(kept)}, classes)",
            argument="rerun",
        )
    if not logits.isfinite().all():
        raise InputError("rerun gave logits that are not finite", argument="rerun")
    return logits.to(kept.device).double()


def followed_class(
    against: Against, full: Tensor, attribution: Attribution, labels: Tensor | None
) -> Tensor:
    """The class that is followed while tokens are removed, (batch,)."""
    if against == "predicted":
        return full.argmax(1)
    if against == "label" and labels is None:
        raise InputError(
            "against='label' needs labels: the true classes, (batch,)",
            argument="labels",
            remedy="Pass labels, or against='predicted'",
        )
    classes = attribution.target if against == "target" or labels is None else labels
    classes = classes.to(full.device).long()
    if classes.shape != (len(full),):
        raise InputError(
            f"the classes are {tuple(classes.shape)}; expected ({len(full)},)", argument="labels"
        )
    wrong = (classes < 0) | (classes >= full.shape[1])
    if wrong.any():
        raise InputError(
            f"against={against!r}: class {int(classes[wrong][0])} is not one of the model's"
            f" {full.shape[1]}",
            argument="against",
            remedy="If the target is not a class, use against='predicted'",
        )
    return classes


def at_class(values: Tensor, classes: Tensor) -> Tensor:
    """The value at one class per sample, (batch,)."""
    return values.gather(1, classes.unsqueeze(1)).squeeze(1)

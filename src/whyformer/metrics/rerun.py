"""Running the model again on what is left: who is asked, about which class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.errors import InputError

Against = Literal["predicted", "target", "label"]


class Predictor(Protocol):
    """Logits (batch, classes) of the samples with only the kept tokens of the named streams.

    `kept` has a mask (batch, tokens) by stream, False at padding; where pixels are taken away it
    is (batch, height * width). Streams that are not named are left as they are. How the gap is
    filled is the callable's own affair.
    """

    def __call__(self, kept: Mapping[str, Tensor]) -> Tensor: ...


def kept_logits(rerun: Predictor, stream: str, kept: Tensor) -> Tensor:
    """Logits of what is kept of one stream, (batch, classes), in double precision."""
    logits = rerun({stream: kept}).detach()
    if logits.ndim != 2 or len(logits) != len(kept):
        raise InputError(
            f"rerun gave a tensor {tuple(logits.shape)}; expected ({len(kept)}, classes)"
        )
    if not logits.isfinite().all():
        raise InputError("rerun gave logits that are not finite")
    return logits.to(kept.device).double()


def kept_logits_each(rerun: Predictor, stream: str, masks: Sequence[Tensor]) -> list[Tensor]:
    """Logits of every mask; a rerun that can take `several` at once is given them all."""
    several = getattr(rerun, "several", None)
    if several is None:
        return [kept_logits(rerun, stream, kept) for kept in masks]
    answers = iter(several(stream, masks))
    return [kept_logits(lambda _: next(answers), stream, kept) for kept in masks]


def followed_class(
    against: Against, full: Tensor, attribution: Attribution, labels: Tensor | None
) -> Tensor:
    """The class whose fate is followed, (batch,): predicted, explained, or true."""
    if against == "predicted":
        return full.argmax(1)
    if against == "label" and labels is None:
        raise InputError("against='label' needs labels: the true classes, (batch,)")
    chosen = attribution.target if against == "target" or labels is None else labels
    chosen = chosen.to(full.device).long()
    if chosen.shape != (len(full),):
        raise InputError(f"the classes are {tuple(chosen.shape)}; expected ({len(full)},)")
    wrong = (chosen < 0) | (chosen >= full.shape[1])
    if wrong.any():
        raise InputError(
            f"against={against!r}: class {int(chosen[wrong][0])} is not one of the model's"
            f" {full.shape[1]}; with a target that is no class, use against='predicted'"
        )
    return chosen


def at_class(values: Tensor, classes: Tensor) -> Tensor:
    """The values at one class per sample, (batch,)."""
    return values.gather(1, classes.unsqueeze(1)).squeeze(1)

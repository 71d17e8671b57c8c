"""The probability that the model gives to what is explained."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from whyformer.inputs.batch import Batch
from whyformer.targets import heads
from whyformer.targets.context import context_columns
from whyformer.targets.heads import Head
from whyformer.targets.selection import Places, Terms

# Rows of scores that sum to 1 this closely are probabilities already.
ROUNDING = 1e-3


def token_probabilities(head: Head, places: Places) -> Tensor | None:
    """Return the probability of each selected token at its place, (batch, terms)."""
    if head.kind != heads.NEXT_TOKEN:
        return None
    # No rule may see this softmax: it is not the model's.
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return _softmax_of(_beside(head.scores.detach(), places), places)


def target_probability(
    head: Head, terms: list[Terms], places: Places, module: nn.Module, batch: Batch
) -> Tensor | None:
    """Return the probability of each sample's target, (batch,), or None if there is none.

    The softmax over the classes or tokens; the sigmoid if the classes do not exclude each other;
    for an answer span that of its start times that of its end. NaN for a sample whose target has
    none, such as a contrast or a side of a box.
    """
    if head.kind == heads.NUMBER:
        return None
    with torch.no_grad(), torch._C.DisableTorchFunction():
        scores = head.scores.detach()
        if head.kind == heads.SPANS:
            found = _span_probabilities(scores, terms, batch)
        elif head.kind == heads.QUERIES:
            found = _query_probabilities(head, places)
        else:
            beside = _beside(scores, places)
            if _is_multi_label(module) and head.kind == heads.CLASSES:
                found = _pick(beside.sigmoid(), places)
            elif _are_probabilities(beside):
                found = _pick(beside, places)
            else:
                found = _softmax_of(beside, places)
        signs = [[sign for sign, _ in row] for row in terms]
        if any(sign != 1 for row in signs for sign in row):
            found = _without_signs(found, torch.tensor(signs))
        whole = found.prod(1)
        return None if all(map(math.isnan, whole.tolist())) else whole


def _without_signs(found: Tensor, signs: Tensor) -> Tensor:
    """The probabilities, 1 where a term does not count, and NaN for samples that subtract one."""
    return found.where(signs != 0, 1).where((signs >= 0).all(1, keepdim=True), torch.nan)


def _beside(scores: Tensor, places: Places) -> Tensor:
    """All entries at the place of each term, (batch, terms, entries), at least float32."""
    *where, entries = places
    if len(where) == 1:  # (batch, entries): the place is the sample
        beside = scores.unsqueeze(1).expand(-1, entries.shape[1], -1)
    else:
        beside = scores[tuple(where)]
    return beside.to(torch.promote_types(beside.dtype, torch.float32))


def _pick(values: Tensor, places: Places) -> Tensor:
    """The entry of each term, (batch, terms)."""
    return values.gather(-1, places[-1].unsqueeze(-1)).squeeze(-1).cpu()


def _softmax_of(beside: Tensor, places: Places) -> Tensor:
    return _pick(beside.softmax(-1), places)


def _are_probabilities(beside: Tensor) -> bool:
    return beside.min().item() >= 0 and bool(((beside.sum(-1) - 1).abs() < ROUNDING).all())


def _is_multi_label(module: nn.Module) -> bool:
    config = getattr(module, "config", None)
    return getattr(config, "problem_type", None) == "multi_label_classification"


def _span_probabilities(scores: Tensor, terms: list[Terms], batch: Batch) -> Tensor:
    """Of the start and the end among the tokens where an answer may be, (batch, 2)."""
    found = []
    for sample, row in enumerate(terms):
        inside = context_columns(batch, sample)
        if inside is None and batch.mask is not None:
            inside = batch.mask[sample]
        logits = scores[sample].to(torch.promote_types(scores.dtype, torch.float32))  # (tokens, 2)
        if inside is not None:
            logits = logits.masked_fill(~inside.to(logits.device)[:, None], -torch.inf)
        chances = logits.softmax(0)
        found.append(torch.stack([chances[where] for _, where in row]))
    return torch.stack(found).cpu()


def _query_probabilities(head: Head, places: Places) -> Tensor:
    """Of the class of each object query, (batch, terms); NaN for a side of its box."""
    has_nothing = heads.BOX[0] in head.names
    sides = len(head.names) - has_nothing
    classes = _beside(head.scores.detach(), places)
    classes = classes[..., : classes.shape[-1] - sides]
    chances = classes.softmax(-1) if has_nothing else classes.sigmoid()
    sides_of_box = chances.new_full((*chances.shape[:-1], sides), torch.nan)
    return _pick(torch.cat([chances, sides_of_box], -1), places)

"""What a model's raw output offers to explain: which scores, and what their axes mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import TargetError
from whyformer.inputs.forward import config_of
from whyformer.inputs.prepared import Prepared

CLASSES, NUMBER, NEXT_TOKEN, MASKED_TOKEN, TOKEN_CLASSES, SPANS, QUERIES = (
    "classes",
    "one number",
    "next tokens",
    "masked tokens",
    "a class per token",
    "answer spans",
    "object queries",
)
CAUSAL_NAMES = ("ForCausalLM", "LMHeadModel")
CALLABLE = "pass target=, a callable that takes the output and returns one value per sample"


@dataclass(frozen=True)
class Head:
    """Scores and what they are about: (batch, classes), (batch, tokens, entries) or (batch, 1)."""

    kind: str
    scores: Tensor


def head_of(output: Any, module: nn.Module, prepared: Prepared) -> Head:
    """The scores in a model's raw output; raises where it has no head to ask."""
    spans = _spans(output, module)
    if spans is not None:
        return Head(SPANS, torch.stack(spans, dim=-1))
    scores = _scores(output, module)
    if scores.ndim == 0 or scores.shape[0] != prepared.batch:
        raise TargetError(
            f"the output of {type(module).__name__} has shape {tuple(scores.shape)} for"
            f" {prepared.batch} samples, so its first axis is not the sample's; {CALLABLE}"
        )
    if scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] == 1):
        return Head(NUMBER, scores.reshape(-1, 1))
    if scores.ndim == 2:
        return Head(CLASSES, scores)
    if scores.ndim == 3:
        return Head(_token_kind(output, scores, module, prepared), scores)
    raise TargetError(
        f"the output of {type(module).__name__} has rank {scores.ndim}, shape"
        f" {tuple(scores.shape)}, which is no list of classes; {CALLABLE}"
    )


def _scores(output: Any, module: nn.Module) -> Tensor:
    """The tensor that the head computed."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        logits = output.get("logits")
        if isinstance(logits, Tensor):
            return logits
        tensors = {k: v for k, v in output.items() if isinstance(v, Tensor) and v.ndim}
        if len(tensors) == 1 and "last_hidden_state" not in tensors:
            return next(iter(tensors.values()))
        fields = ", ".join(map(str, output)) or "nothing"
        headless = "last_hidden_state" in output
        raise TargetError(
            f"{type(module).__name__} has no head"
            f"{'' if headless else ' that whyformer knows'}: it returns {fields}; {CALLABLE}, or"
            " load the model with a head"
        )
    if isinstance(output, tuple | list):
        found = [v for v in output if isinstance(v, Tensor) and v.ndim]
        # A loss, where there is one, is a scalar in front. A base model has states in front.
        if found and not (found[0].ndim == 3 and _is_headless(module)):
            return found[0]
        raise TargetError(
            f"{type(module).__name__} has no head: it returns {len(output)} values without"
            f" logits; {CALLABLE}, or load the model with a head"
        )
    raise TargetError(
        f"{type(module).__name__} returns {type(output).__name__}, which is no tensor, mapping or"
        f" tuple; {CALLABLE}"
    )


def _spans(output: Any, module: nn.Module) -> tuple[Tensor, Tensor] | None:
    """Start and end logits, each (batch, tokens), of a question-answering head."""
    if isinstance(output, Mapping):
        start, end = output.get("start_logits"), output.get("end_logits")
        return (start, end) if isinstance(start, Tensor) and isinstance(end, Tensor) else None
    if isinstance(output, tuple) and type(module).__name__.endswith("ForQuestionAnswering"):
        found = [v for v in output if isinstance(v, Tensor) and v.ndim == 2]
        return (found[0], found[1]) if len(found) > 1 else None
    return None


def _token_kind(output: Any, scores: Tensor, module: nn.Module, prepared: Prepared) -> str:
    """What each of a sequence of score rows is about."""
    if isinstance(output, Mapping) and "pred_boxes" in output:
        return QUERIES
    name = type(module).__name__
    if name.endswith("ForTokenClassification"):
        return TOKEN_CLASSES
    if name.endswith("ForMaskedLM"):
        return MASKED_TOKEN
    vocabulary = getattr(config_of(module), "vocab_size", None)
    if name.endswith(CAUSAL_NAMES) or scores.shape[-1] == vocabulary:
        return NEXT_TOKEN
    if prepared.mask is not None and scores.shape[1] != prepared.mask.shape[1]:
        raise TargetError(
            f"the output of {name} has shape {tuple(scores.shape)} for"
            f" {prepared.mask.shape[1]} tokens; {CALLABLE}"
        )
    return TOKEN_CLASSES


def _is_headless(module: nn.Module) -> bool:
    """Whether this is a transformers base model, which ends in hidden states."""
    name = type(module).__name__
    return config_of(module) is not None and "For" not in name and not name.endswith(CAUSAL_NAMES)

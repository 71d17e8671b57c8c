"""Find the scores in a model's raw output, and what their axes mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import TargetError
from whyformer.inputs.batch import Batch
from whyformer.models.signature import config_of

CLASSES, NUMBER, NEXT_TOKEN, MASKED_TOKEN, TOKEN_CLASSES, PIXEL_CLASSES, SPANS, QUERIES = (
    "classes",
    "one number",
    "next tokens",
    "masked tokens",
    "a class per token",
    "a class per pixel",
    "answer spans",
    "object queries",
)
# Names of the scores in model outputs, and a detector's entries after its classes.
SCORES = ("logits", "question_answering_score", "itm_score", "class_queries_logits")
BOX = ("no object", "x", "y", "width", "height")
DUAL_ENCODERS = ("CLIP", "CustomTextCLIP")  # classes of open_clip, which return a tuple
CAUSAL_NAMES = ("ForCausalLM", "LMHeadModel")
# Models that write text or sound: the scores at a token are about what comes next.
GENERATORS = (*CAUSAL_NAMES, "ForConditionalGeneration")
PASS_CALLABLE = "Pass target=, a callable that takes the output and returns one value per sample"
LOAD_HEAD = f"{PASS_CALLABLE}, or load the model with a head"


@dataclass(frozen=True)
class Head:
    """Scores and their kind: (batch, classes), (batch, tokens or pixels, entries) or (batch, 1)."""

    kind: str
    scores: Tensor
    names: tuple[str, ...] = ()  # of entries without a name in the model's config


def head_of(output: Any, module: nn.Module, batch: Batch) -> Head:
    """Return the scores in a model's raw output; raise TargetError if it has no head."""
    spans = _spans(output, module)
    if spans is not None:
        return Head(SPANS, torch.stack(spans, dim=-1))
    pairs = _pairs(output, module, batch)
    if pairs is not None:
        return Head(NUMBER, pairs, ("similarity",))
    scores = _scores(output, module)
    if scores.ndim == 0 or scores.shape[0] != batch.size:
        raise TargetError(
            f"the output of {type(module).__name__} has shape {tuple(scores.shape)} for"
            f" {batch.size} samples: its first axis does not count samples",
            argument="head",
            remedy=PASS_CALLABLE,
        )
    if scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] == 1):
        return Head(NUMBER, scores.reshape(-1, 1))
    if scores.ndim == 2:
        return Head(CLASSES, scores)
    if isinstance(output, Mapping) and isinstance(output.get("pred_boxes"), Tensor):
        boxes: Tensor = output["pred_boxes"]
        # Detectors that were trained with a focal loss have no class of "no object", nor have
        # those whose classes are texts.
        count = getattr(getattr(module, "config", None), "num_labels", None)
        names = BOX if count is None or scores.shape[-1] == count + 1 else BOX[1:]
        return Head(QUERIES, torch.cat([scores, boxes.to(scores.dtype)], dim=-1), names)
    if isinstance(output, Mapping) and scores is output.get("class_queries_logits"):
        return Head(QUERIES, scores, BOX[:1])
    if scores.ndim == 3 and batch.mask is None and scores.shape[1] == 1:
        return Head(CLASSES, scores.squeeze(1))
    if scores.ndim == 3:
        return Head(_token_kind(scores, module, batch), scores)
    if scores.ndim == 4 and batch.is_image:
        # (batch, classes, rows, columns) of a segmentation.
        return Head(PIXEL_CLASSES, scores.flatten(2).transpose(1, 2))
    raise TargetError(
        f"the output of {type(module).__name__} has rank {scores.ndim}, shape"
        f" {tuple(scores.shape)}, which is not a list of classes",
        argument="head",
        remedy=PASS_CALLABLE,
    )


def _scores(output: Any, module: nn.Module) -> Tensor:
    """The tensor of scores in the output."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        for name in SCORES:
            scores = output.get(name)
            if isinstance(scores, tuple | list) and scores and isinstance(scores[0], Tensor):
                return scores[0]  # several heads read the same: the first one is the main one
            if isinstance(scores, Tensor):
                return scores
        tensors = {k: v for k, v in output.items() if isinstance(v, Tensor) and v.ndim}
        if len(tensors) == 1 and "last_hidden_state" not in tensors:
            return next(iter(tensors.values()))
        fields = ", ".join(map(str, output)) or "nothing"
        headless = "last_hidden_state" in output
        raise TargetError(
            f"{type(module).__name__} has no head"
            f"{'' if headless else ' that whyformer knows'}: it returns {fields}",
            argument="head",
            remedy=LOAD_HEAD,
        )
    if isinstance(output, tuple | list):
        found = [v for v in output if isinstance(v, Tensor) and v.ndim]
        # A loss comes first and is a scalar. A base model returns hidden states first.
        if found and not (found[0].ndim == 3 and _is_headless(module)):
            return found[0]
        raise TargetError(
            f"{type(module).__name__} has no head: it returns {len(output)} values without logits",
            argument="head",
            remedy=LOAD_HEAD,
        )
    raise TargetError(
        f"{type(module).__name__} returns {type(output).__name__}, which is not a tensor, mapping"
        " or tuple",
        argument="head",
        remedy=PASS_CALLABLE,
    )


def _pairs(output: Any, module: nn.Module, batch: Batch) -> Tensor | None:
    """The similarity of each text with its own image, (batch, 1), in a dual encoder."""
    scores = None
    if isinstance(output, Mapping):
        scores = output.get("logits_per_image", output.get("logits_per_video"))
        if scores is None and batch.arguments.get("use_itm_head") is False:
            scores = output.get("itm_score")
    if scores is None:
        scores = _feature_similarity(output, module)
    return None if scores is None else scores.diagonal().reshape(-1, 1)


def _feature_similarity(output: Any, module: nn.Module) -> Tensor | None:
    """The logits (images, texts) of open_clip's output: features, logit scale and perhaps bias."""
    names = ("image_features", "text_features", "logit_scale", "logit_bias")
    parts = output if isinstance(output, Mapping) else {}
    if isinstance(output, tuple) and type(module).__name__ in DUAL_ENCODERS:
        parts = dict(zip(names, output, strict=False))
    image, text, scale, bias = (parts.get(name) for name in names)
    if not (isinstance(image, Tensor) and isinstance(text, Tensor) and isinstance(scale, Tensor)):
        return None
    logits = scale * (image @ text.T)
    return logits if bias is None else logits + bias


def _spans(output: Any, module: nn.Module) -> tuple[Tensor, Tensor] | None:
    """Start and end logits, each (batch, tokens), of a question-answering head."""
    if isinstance(output, Mapping):
        start, end = output.get("start_logits"), output.get("end_logits")
        return (start, end) if isinstance(start, Tensor) and isinstance(end, Tensor) else None
    if isinstance(output, tuple) and type(module).__name__.endswith("ForQuestionAnswering"):
        found = [v for v in output if isinstance(v, Tensor) and v.ndim == 2]
        return (found[0], found[1]) if len(found) > 1 else None
    return None


def _token_kind(scores: Tensor, module: nn.Module, batch: Batch) -> str:
    """The kind of scores of shape (batch, tokens, entries)."""
    if batch.stream == "generated":
        return NEXT_TOKEN
    name = type(module).__name__
    if name.endswith("ForTokenClassification"):
        return TOKEN_CLASSES
    if name.endswith("ForMaskedLM"):
        return MASKED_TOKEN
    vocabulary = getattr(config_of(module), "vocab_size", None)
    if name.endswith(GENERATORS) or scores.shape[-1] == vocabulary:
        return NEXT_TOKEN
    if batch.mask is not None and scores.shape[1] != batch.mask.shape[1]:
        raise TargetError(
            f"the output of {name} has shape {tuple(scores.shape)} for {batch.mask.shape[1]}"
            " tokens",
            argument="head",
            remedy=PASS_CALLABLE,
        )
    return TOKEN_CLASSES


def _is_headless(module: nn.Module) -> bool:
    """Whether this is a transformers base model, which returns hidden states."""
    name = type(module).__name__
    return config_of(module) is not None and "For" not in name and not name.endswith(CAUSAL_NAMES)

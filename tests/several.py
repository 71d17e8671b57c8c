"""Helpers for tests of every family: targets, one sample of a batch, inputs with more padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.models.families import Family, Source, family_of
from whyformer.models.families.soft import Soft
from whyformer.models.families.tiny import tiny_inputs, tiny_models

QUERIES_OF_ZEROS = {"conditional_detr", "detr", "table_transformer"}
DETECTORS = QUERIES_OF_ZEROS | {"deformable_detr", "yolos"}
ONE_CLASS = {"owlv2", "owlvit"}  # detectors whose only class is the text
SIMILARITIES = {
    "altclip",
    "chinese_clip",
    "clip",
    "metaclip_2",
    "siglip",
    "vision_text_dual_encoder",
}
# VisualBERT reads the token before the last. Without a tokenizer nobody knows which two tokens are
# special and must stay, so removed ones have to keep their places.
# Funnel pools tokens, and fails on too few.
FILLS = {"funnel": "zero", "visual_bert": "zero"}
# It is not known which pixels belong to which of their tokens.
# It makes tensors in the default precision, and fails in float64 if that is another.
NEEDS_DOUBLE = {"kosmos_2"}
WITHOUT_REMOVAL = {"deformable_detr", "mllama"}
# Their attention is no map between all tokens; `blend` then leaves out its walk over maps.
WITHOUT_MAPS = [name for name, (known, _) in tiny_models().items() if known.without_maps]
# Speech models write zeros at padding, detectors add to boxes: relevance
# rules cannot follow.
WRITES_IN_PLACE = {
    "conditional_detr",
    "deformable_detr",
    "hubert",
    "unispeech",
    "unispeech_sat",
    "wav2vec2",
    "wav2vec2_bert",
    "wav2vec2_large",
    "wavlm",
}
SEVERAL = [name for name, (known, _) in tiny_models().items() if known.sources]


def target_of(name: str) -> Any:
    """Class or token 1; a detector's query 1; None for models of similarity."""
    if name in DETECTORS:
        return wf.query(1, 1)
    if name in ONE_CLASS:
        return wf.query(1, 0)
    return None if name in SIMILARITIES else 1


def index_of(name: str) -> int:
    """The class or token of `target_of`."""
    return int(target_of(name) is not None and name not in ONE_CLASS)


def value_of(name: str, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """The value of `target_of` in a plain forward of the model, (batch,)."""
    known = tiny_models()[name][0]
    heard: list[Any] = []
    part = model.get_submodule(known.output_module)
    handle = part.register_forward_hook(lambda m, args, output: heard.append(output))
    double = name in NEEDS_DOUBLE and next(model.parameters()).dtype == torch.float64
    with torch.no_grad(), default_dtype(torch.float64 if double else torch.get_default_dtype()):
        model(**inputs)
    handle.remove()
    output = heard[-1]
    if name in SIMILARITIES:
        similarity: Tensor = output.logits_per_image.diagonal()
        return similarity
    scores: Tensor = next(
        output[key]
        for key in ("logits", "question_answering_score", "itm_score")
        if output.get(key) is not None
    )
    if name in DETECTORS:
        return scores[:, 1, 1]
    if name in ONE_CLASS:
        return scores[:, 1, 0].to(next(model.parameters()).dtype)  # it narrows its own output
    if scores.ndim == 2:
        return scores[:, 1]
    generated = [s for s in known.sources if s.stream == "generated"]
    mask = inputs[(generated[0].mask or "") if generated else "attention_mask"]
    last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
    return scores[torch.arange(len(scores)), last, 1]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """A scope in which tensors are made in this precision by default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def refuses(name: str, method: str) -> bool:
    """Whether the method cannot read this model.

    It has no attention maps, writes in place, or has tokens that cannot be removed.
    """
    needs = wf.methods()[method].needs
    if name in WITHOUT_REMOVAL and "removal" in needs:
        return True
    if name in WRITES_IN_PLACE and "relevance" in needs:
        return True
    return name in WITHOUT_MAPS and "attention" in needs and method != "blend"


def mask_of(model: nn.Module, source: Source, inputs: dict[str, Tensor]) -> Tensor:
    """True at real tokens, (batch, tokens), from the mask of the inputs."""
    real = inputs[source.mask or ""].bool()
    known = family_of(model)
    for soft in known.soft if known and source.carrier == "input_ids" else ():
        real = real & ~soft.columns(model.config, inputs)
    tokens = source.count_tokens(model, torch.arange(real.shape[1] + 1))
    if torch.equal(tokens, torch.arange(real.shape[1] + 1)):
        return real
    return torch.arange(int(tokens[-1])) < tokens[real.sum(1)].unsqueeze(1)


def is_image(known: Family) -> bool:
    """Whether the only stream of the family is an image."""
    return not known.sources and known.stream == "image"


def sources_of(model: nn.Module) -> tuple[Source, ...]:
    """Where the streams of a model's inputs come from."""
    known = family_of(model)
    assert known is not None
    if known.sources:
        return known.sources
    if is_image(known):
        return (Source("image", "pixel_values", kind="pixels"),)
    return (Source("text", "input_ids", mask="attention_mask"),)


def columns_of(model: nn.Module, source: Source, inputs: dict[str, Tensor]) -> list[str]:
    """The arguments with one entry per token; none if the stream cannot be padded."""
    if source.mask not in inputs or not source.allows_padding(model):
        return []
    if source.kind not in ("ids", "features", "frames", "waveform"):
        return []
    return [name for name in (source.carrier, source.mask, *source.beside) if name in inputs]


def only(model: nn.Module, inputs: dict[str, Tensor], sample: int) -> dict[str, Tensor]:
    """One sample of a batch, without its padding."""
    one = {name: value[sample : sample + 1] for name, value in inputs.items()}
    known = family_of(model)
    for soft in known.soft if known else ():
        if soft.carrier in inputs:
            one |= soft_entries(soft, model, inputs, sample)
    for source in sources_of(model):
        names = columns_of(model, source, inputs)
        if names:
            real = inputs[source.mask or ""][sample].bool()
            one |= {name: one[name][:, real] for name in names}
    return one


def soft_entries(
    soft: Soft, model: nn.Module, inputs: dict[str, Tensor], sample: int
) -> dict[str, Tensor]:
    """The entries of one sample in arguments that do not count samples; each has one image."""
    items = soft.items(model.config, inputs)
    own = {}
    for name, count in items[sample].entries.items():
        start = sum(item.entries[name] for item in items[:sample])
        own[name] = inputs[name][start : start + count]
    return own


def padded(
    model: nn.Module, lengths: Sequence[int], padding: str, more: int = 2
) -> dict[str, Tensor]:
    """Tiny inputs with `more` extra columns of padding in every stream, all on one side."""
    inputs = tiny_inputs(model, lengths)
    config: Any = model.config
    for source in sources_of(model):
        names = columns_of(model, source, inputs)
        for name in names:
            value = inputs[name]
            fill = getattr(config, "pad_token_id", None) or 0 if source.kind == "ids" else 0
            fill = fill if name == source.carrier else 0
            spare = torch.full((len(value), more, *value.shape[2:]), fill, dtype=value.dtype)
            inputs[name] = torch.cat([value, spare], 1)
        if names and padding == "left":
            shifts = (inputs[source.mask or ""] == 0).sum(1).tolist()
            for name in names:
                rows = zip(inputs[name], shifts, strict=True)
                inputs[name] = torch.stack([row.roll(shift, 0) for row, shift in rows])
    return inputs

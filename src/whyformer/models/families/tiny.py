"""Build small random models of a family and inputs for them, for tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.models.families.family import Family, Source, families, family_of
from whyformer.models.families.soft import Soft
from whyformer.models.undo import keep_random_state

# Sizes shared by most families; a family's module translates names that its config changes.
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
ENCODER = {
    **SIZES,
    "vocab_size": 60,
    "max_position_embeddings": 40,
    "num_labels": 3,
    "pad_token_id": 0,
}
DECODER = {
    **SIZES,
    "vocab_size": 60,
    "max_position_embeddings": 40,
    "head_dim": 8,
    "num_key_value_heads": 2,  # fewer than heads: grouped-query attention
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "experts_implementation": "eager",  # the grouped product has no float64
}
# Classes that pool at the end-of-text token, as CLIP does.
POOLS_AT_END = ("BartForSequenceClassification",)
IMAGE = {**SIZES, "image_size": 12, "patch_size": 4, "num_labels": 3}


def tiny_model(class_name: str, **sizes: Any) -> Callable[..., nn.Module]:
    """Return a function that builds a transformers class in eval mode.

    Keywords of that function change the config. The same call gives the same weights, and the
    global random state does not change.
    """

    def build(*, seed: int = 0, **changes: Any) -> nn.Module:
        import transformers

        with warnings.catch_warnings():
            # DeBERTa's module uses torch.jit on import; the caller cannot change that.
            warnings.simplefilter("ignore", DeprecationWarning)
            model_class = getattr(transformers, class_name)
        config = model_class.config_class(**{**sizes, **changes})
        with keep_random_state():
            # Not torch.manual_seed: it would also seed the accelerators, which are not forked.
            torch.default_generator.manual_seed(seed)
            model: nn.Module = model_class(config).eval()
            _add_noise(model)
        return model

    return build


@torch.no_grad()
def _add_noise(model: nn.Module) -> None:
    """Add noise to every parameter: new models have zero biases and unit gains."""
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.25)


def tiny_inputs(
    model: nn.Module, lengths: Sequence[int] = (7, 5), *, padding: str = "right", seed: int = 0
) -> dict[str, Tensor]:
    """Return random inputs for a tiny model's forward, one sample per length.

    Sample i does not depend on the padding and the other lengths. Images ignore the lengths.
    """
    known = family_of(model)
    config: Any = model.config
    dtype = next(model.parameters()).dtype
    image = hasattr(config, "image_size")
    default = Source("image", "pixel_values", kind="pixels")
    text = Source("text", "input_ids", mask="attention_mask")
    sources = (known.sources if known else ()) or ((default if image else text),)
    inputs: dict[str, Tensor] = {}
    for number, source in enumerate(sources):
        part: Any = model.get_submodule(source.part)
        generator = torch.Generator().manual_seed(seed + 100 * number)
        if source.kind == "pixels":
            side = getattr(part.config, "image_size", None) or 16
            side = side if isinstance(side, int) else side[0]
            pixels = [(3, side, side)] * len(lengths)
            inputs[source.carrier] = _random_stack(pixels, generator, dtype)
        elif source.kind == "video":
            side = part.config.image_size
            frames = [(part.config.num_frames, 3, side, side)] * len(lengths)
            inputs[source.carrier] = _random_stack(frames, generator, dtype)
        elif source.kind == "tiles":
            side, ones = config.vision_config.image_size, torch.ones(len(lengths), 1)
            tiles = [(1, 2, 3, side, side)] * len(lengths)
            inputs[source.carrier] = _random_stack(tiles, generator, dtype)
            inputs["aspect_ratio_ids"] = ones.long() * 2  # one row of two tiles
            inputs["aspect_ratio_mask"] = torch.ones(len(lengths), 1, 2, dtype=torch.long)
        elif source.kind in ("frames", "sound", "waveform"):
            inputs |= _tiny_sound(source, model, lengths, generator, dtype)
        elif source.kind == "features":
            inputs |= _tiny_features(source, part.config, lengths, generator, dtype)
        else:
            # Later streams are shorter, so that tests notice mixed-up streams.
            sizes = [max(1, length - 3 * (number > 0)) for length in lengths]
            sizes = sizes if source.allows_padding(model) else [6] * len(lengths)
            inputs |= _tiny_tokens(source, part.config, sizes, padding, generator)
            if type(model).__name__ in POOLS_AT_END:
                mask = inputs[source.mask or "attention_mask"]
                _put_at_end(inputs[source.carrier], mask, part.config.eos_token_id)
    for soft in known.soft if known else ():
        if soft.tiny is not None:
            generator = torch.Generator().manual_seed(seed + 1000)
            made = soft.tiny(config, len(lengths), generator)
            made = {k: v.to(dtype) if v.is_floating_point() else v for k, v in made.items()}
            inputs = {**_add_placeholders(inputs, soft, model, made, padding), **made}
    return inputs


def _add_placeholders(
    inputs: dict[str, Tensor],
    soft: Soft,
    model: nn.Module,
    made: dict[str, Tensor],
    padding: str,
) -> dict[str, Tensor]:
    """The inputs with the placeholders of one image after the first token of each text."""
    config: Any = model.config
    counts = [item.count for item in soft.items(config, made)]
    rows = []
    for ids, mask, count in zip(inputs["input_ids"], inputs["attention_mask"], counts, strict=True):
        text = ids[mask.bool()].tolist()
        placeholder = 4 if soft.marks else getattr(config, soft.placeholder)
        rows.append([text[0], *[placeholder] * count, *text[1:]])
    longest = max(map(len, rows))
    fill = getattr(config.get_text_config(), "pad_token_id", None) or 0
    spare = [[0] * (longest - len(row)) for row in rows]
    left = padding == "left"

    def pad(values: Sequence[list[int]], fill: int) -> Tensor:
        gaps = [[fill] * len(gap) for gap in spare]
        both = zip(values, gaps, strict=True)
        return torch.tensor([gap + row if left else row + gap for row, gap in both])

    found = {
        **inputs,
        "input_ids": pad(rows, fill),
        "attention_mask": pad([[1] * len(row) for row in rows], 0),
    }
    if soft.marks:
        return {**found, soft.marks: (found["input_ids"] == 4).long()}
    columns = soft.columns(config, found)
    return {**found, soft.kinds: columns.long() * soft.kind} if soft.kinds else found


def _random_stack(
    shapes: Sequence[tuple[int, ...]], generator: torch.Generator, dtype: torch.dtype
) -> Tensor:
    return torch.stack([torch.randn(shape, generator=generator) for shape in shapes]).to(dtype)


def _tiny_sound(
    source: Source,
    model: nn.Module,
    lengths: Sequence[int],
    generator: torch.Generator,
    dtype: torch.dtype,
) -> dict[str, Tensor]:
    """Noise that gives so many token states, or as many as the model always takes."""
    config: Any = source.submodule(model).config
    fixed = getattr(config, "max_source_positions", None) if source.mask is None else None
    counts = [fixed or length for length in lengths]
    if source.mask is None or not source.allows_padding(model):
        counts = [fixed or max(lengths)] * len(lengths)
    tokens = source.count_tokens(model, torch.arange(4000))
    entries = [int((tokens <= count).nonzero()[-1]) for count in counts]
    if source.grid is not None:
        entries = [config.max_length] * len(lengths)
    width = [getattr(config, setting) for setting in source.widths.values()]
    rows = [torch.randn(4000, *width, generator=generator)[: max(entries)] for _ in lengths]
    real = torch.arange(max(entries)) < torch.tensor(entries).unsqueeze(1)
    value = torch.stack(rows).to(dtype) * real.reshape(*real.shape, *[1] * len(width))
    inputs = {source.carrier: value.mT.contiguous() if source.kind == "sound" else value}
    if source.mask:
        inputs[source.mask] = real.long()
    return inputs


def _tiny_features(
    source: Source,
    config: Any,
    lengths: Sequence[int],
    generator: torch.Generator,
    dtype: torch.dtype,
) -> dict[str, Tensor]:
    """Region features, one region fewer than tokens, with their masks and boxes."""
    counts = [length - 1 for length in lengths]
    width, most = getattr(config, source.widths[source.carrier]), max(counts)
    both = [torch.randn(40, width + 4, generator=generator)[:most] for _ in lengths]
    rows, boxes = [row[:, :width] for row in both], [row[:, width:].sigmoid() for row in both]
    real = torch.arange(most) < torch.tensor(counts).unsqueeze(1)
    inputs = {source.carrier: torch.stack(rows).to(dtype) * real.unsqueeze(2)}
    if source.mask:
        inputs[source.mask] = real.to(dtype)
    if source.boxes:
        inputs[source.boxes] = torch.stack(boxes).to(dtype) * real.unsqueeze(2)
    return inputs


def _tiny_tokens(
    source: Source,
    config: Any,
    lengths: Sequence[int],
    padding: str,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    longest = max(lengths)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    rows = [torch.randint(5, config.vocab_size - 1, (40,), generator=generator) for _ in lengths]
    ids = torch.full((len(lengths), longest), getattr(config, "pad_token_id", None) or 0)
    mask = torch.zeros_like(ids)
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        place = slice(0, length) if padding == "right" else slice(longest - length, longest)
        ids[i, place] = row[:length]
        mask[i, place] = 1
    last = getattr(config, "eos_token_id", None)
    if config.model_type in ("clip_text_model", "metaclip_2_text_model") and last is not None:
        _put_at_end(ids, mask, last)
    return {source.carrier: ids, source.mask or "attention_mask": mask}


def _put_at_end(ids: Tensor, mask: Tensor, token: int) -> None:
    """Write a token over the last one of each text."""
    for row, real in zip(ids, mask, strict=True):
        row[real.nonzero().flatten()[-1]] = token


def tiny_models() -> dict[str, tuple[Family, Callable[..., nn.Module]]]:
    """(family, builder) of all tiny models, variants included, by name."""
    return {
        name: (known, builder)
        for known in families.values()
        for name, builder in {known.name: known.tiny, **known.variants}.items()
        if builder is not None
    }

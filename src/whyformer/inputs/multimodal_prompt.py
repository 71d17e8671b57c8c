"""Prompts with images or sounds: the model's own processor writes the placeholders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.detect import is_image, texts_of
from whyformer.inputs.images import open_image
from whyformer.models.families import Family
from whyformer.models.families.soft import Soft
from whyformer.models.processors import first_line, stored_processor
from whyformer.models.quiet import quiet_transformers
from whyformer.models.signature import Forward

# The keyword of a processor for each stream.
KEYWORDS = {"image": "images", "video": "videos", "audio": "audio"}


def is_prompt(inputs: Any, family: Family) -> bool:
    """Whether the inputs are texts with images or sounds, and not arguments of forward."""
    if isinstance(inputs, list):
        return bool(inputs) and all(is_prompt(one, family) for one in inputs)
    if isinstance(inputs, tuple):
        return len(inputs) == 2 and sum(isinstance(part, str) for part in inputs) == 1
    streams = {"text", *(soft.stream for soft in family.soft)}
    if not isinstance(inputs, Mapping) or not {"text"} < set(inputs) <= streams:
        return False
    return not any(isinstance(value, Tensor) for value in inputs.values())


def read_prompts(
    inputs: Any, module: nn.Module, forward: Forward, family: Family, processor: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments of forward for texts with images or sounds, and notes for the user.

    Args:
        inputs: {"text": ..., "image": ...}, a (text, image) pair, or a list of either. The image
            of a text may be a list of images. The text and the image of a mapping may be lists
            of the same length: one entry per sample.
        module: The model.
        forward: Its forward.
        family: Its family.
        processor: Its processor, which writes the placeholders.

    Raises:
        InputError: There is no processor, or it does not take the inputs.
    """
    used = processor if processor is not None else stored_processor(module)
    if not callable(used) or not hasattr(used, "tokenizer"):
        raise InputError(
            f"text was given together with {' or '.join(s.stream for s in family.soft)}, and"
            f" {type(module).__name__} comes without a processor for both",
            argument="processor",
            remedy="Pass processor=, the model's own (transformers.AutoProcessor), or a mapping of"
            " what forward takes",
        )
    samples = _samples(inputs, family.soft[0].stream)
    texts = [str(text) for text in texts_of([sample["text"] for sample in samples])]
    media = {
        soft.stream: [_media(sample.get(soft.stream), soft) for sample in samples]
        for soft in family.soft
    }
    media = {stream: found for stream, found in media.items() if any(found)}
    texts, notes = _add_placeholders(texts, media, used)
    own = {KEYWORDS[stream]: found for stream, found in media.items()}
    if "audio" in own:
        own["audio"] = [sound for sounds in own["audio"] for sound in sounds]
    try:
        with quiet_transformers():
            made = dict(used(text=texts, **own, padding=True, return_tensors="pt"))
    except Exception as error:
        counts = "; ".join(
            f"sample {i}: {', '.join(f'{len(m[i])} {s}' for s, m in media.items())}"
            for i in range(len(texts))
        )
        raise InputError(
            f"{type(used).__name__} cannot read the inputs ({counts}):"
            f" {first_line(error) or type(error).__name__}",
            argument="inputs",
            remedy="Pass as many images as the text has placeholders for, or leave the"
            " placeholders out of the text",
        ) from error
    return {name: value for name, value in made.items() if forward.takes(name)}, notes


def _samples(inputs: Any, stream: str) -> list[dict[str, Any]]:
    """The inputs as one mapping of streams per sample."""
    if isinstance(inputs, list):
        return [sample for one in inputs for sample in _samples(one, stream)]
    if isinstance(inputs, tuple):
        text, other = inputs if isinstance(inputs[0], str) else inputs[::-1]
        return [{"text": text, stream: other}]
    if isinstance(inputs["text"], str):
        return [dict(inputs)]
    count = len(inputs["text"])
    for name, value in inputs.items():
        if not isinstance(value, Sequence) or len(value) != count:
            size = len(value) if isinstance(value, Sequence) else 1
            raise InputError(
                f"'{name}' has {size} entries and 'text' has {count}",
                argument="inputs",
                remedy="Pass one entry per text; for several images in a text, a list of them",
            )
    return [{name: value[i] for name, value in inputs.items()} for i in range(count)]


def _media(value: Any, soft: Soft) -> list[Any]:
    """The images or sounds of one sample."""
    if value is None:
        return []
    if soft.stream != "image":
        return [value]
    items = value if isinstance(value, list | tuple) else [value]
    arrays = [hasattr(item, "shape") and not is_image(item) for item in items]
    both = zip(items, arrays, strict=True)
    return [item if is_array else open_image(item, "RGB") for item, is_array in both]


def _add_placeholders(
    texts: list[str], media: Mapping[str, list[list[Any]]], processor: Any
) -> tuple[list[str], tuple[str, ...]]:
    """The texts with a placeholder for each image, by the chat template if there is one."""
    added = False
    new = []
    for i, text in enumerate(texts):
        _check_places(text, i, media, processor)
        missing = {
            stream: len(found[i])
            for stream, found in media.items()
            if found[i] and (sign := _sign(processor, stream)) and sign not in text
        }
        if missing:
            added, text = True, _write_placeholders(text, missing, processor)
        new.append(text)
    way = "the chat template" if getattr(processor, "chat_template", None) else "placeholders"
    return new, (f"{way} added to the text, which had no place for the image",) if added else ()


def _check_places(
    text: str, sample: int, media: Mapping[str, list[list[Any]]], processor: Any
) -> None:
    """Raise InputError if a text has places, but not as many as there are images."""
    for stream, found in media.items():
        sign = _sign(processor, stream)
        places = text.count(sign) if sign else 0
        if places and places != len(found[sample]):
            raise InputError(
                f"the text of sample {sample} has {places} places for {stream}s ({sign!r}), and it"
                f" comes with {len(found[sample])}",
                argument="inputs",
                remedy=f"Pass one {stream} for each place, or leave the places out of the text",
            )


def _write_placeholders(text: str, missing: Mapping[str, int], processor: Any) -> str:
    """One text with as many placeholders as images, before the text."""
    if getattr(processor, "chat_template", None):
        content: list[dict[str, str]] = [
            {"type": stream} for stream, count in missing.items() for _ in range(count)
        ]
        chat = [{"role": "user", "content": [*content, {"type": "text", "text": text}]}]
        return str(processor.apply_chat_template(chat, add_generation_prompt=True))
    signs = [_sign(processor, stream) * count for stream, count in missing.items()]
    return "".join(signs) + text


def _sign(processor: Any, stream: str) -> str:
    """The placeholder of one image in a text; empty if the processor writes it itself."""
    sign = getattr(processor, f"{stream}_token", None)
    return "" if sign is None else str(getattr(sign, "content", sign))

"""CLIP of the package open_clip: separate text and image encoders; the target is their similarity.

The same class as in OpenAI's package `clip`.
"""

from typing import Any

from whyformer.models.families.family import Family, Source, Stack, declare


def declare_open_clip(name: str, title: str, model_class: str, text: str) -> Family:
    """Declare a class whose text encoder is the sub-module `text`, or the model itself."""
    blocks = f"{text}.transformer.resblocks" if text else "transformer.resblocks"
    facts: dict[str, Any] = {
        "title": title,
        "stream": "text",
        "classes": (model_class,),
        "sources": (
            Source("text", "text", part=text),
            Source("image", "image", kind="pixels", part="visual"),
        ),
        "stacks": (Stack(("text",), blocks), Stack(("image",), "visual.transformer.resblocks")),
        "attention": {
            blocks: ("text", "text"),
            "visual.transformer.resblocks": ("image", "image"),
        },
        "prefix_tokens": lambda config: 1,
    }
    return declare(name, **facts)


open_clip = declare_open_clip("open_clip", "CLIP of open_clip", "CLIP", "")

"""One token stream: models with two are refused, for a map of one of them would look complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from whyformer.errors import ModelError

# Arguments that each bring tokens of their own.
CARRIERS = (
    "input_ids",
    "inputs_embeds",
    "pixel_values",
    "visual_feats",
    "visual_embeds",
    "input_features",
    "input_values",
    "decoder_input_ids",
    "decoder_inputs_embeds",
)


def check_one_stream(module: nn.Module, arguments: Mapping[str, Any]) -> None:
    """Nothing; raises where the model mixes two sequences of tokens."""
    config = getattr(module, "config", None)
    carriers = [name for name in CARRIERS if arguments.get(name) is not None]
    reasons = {
        f"its inputs {' and '.join(carriers)} each bring tokens": len(carriers) > 1,
        "it has an encoder and a decoder": getattr(config, "is_encoder_decoder", False) is True
        or any(isinstance(m, (nn.Transformer, nn.TransformerDecoder)) for m in module.modules()),
        "its config describes a text and a vision model": all(
            getattr(config, part, None) is not None for part in ("text_config", "vision_config")
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            raise ModelError(
                f"{type(module).__name__} has two token streams: {reason}. This version explains"
                " models with one. To explain one part alone, pass that part (such as"
                " model.get_encoder()) with a target of its own."
            )


def check_tokens(
    name: str, tokens: int, masked: int | None, grid: tuple[int, int] | None, prefix: int | None
) -> None:
    """Nothing; raises where the states have other tokens than the inputs.

    `masked` is how many tokens the text has, `prefix` how many the family puts before patches;
    None where no family says so, and a class token at the most is assumed.
    """
    if masked is not None and masked != tokens:
        raise ModelError(
            f"{tokens} token states enter the first block of {name}, and the input has {masked}"
            " tokens: it adds or drops some on the way, and whyformer cannot tell which is which"
        )
    if grid is None:
        return
    patches = grid[0] * grid[1]
    allowed = {0, 1} if prefix is None else {0, prefix}
    if tokens - patches not in allowed:
        raise ModelError(
            f"{tokens} token states enter the first block of {name}, and the image has"
            f" {grid[0]} x {grid[1]} = {patches} patches: whyformer cannot tell which states are"
            " patches. If these are not the model's blocks, name them by blocks='path.to.blocks'."
        )

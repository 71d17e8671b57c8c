"""Shared by encoder-decoders that transformers composes of any encoder and any text decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from whyformer.models.families.family import Source
from whyformer.models.families.tiny import SIZES, tiny_model

# Fields of the family: where the two models and their attentions are.
COMPOSED: Mapping[str, Any] = {
    "generated": Source(
        "generated",
        "decoder_input_ids",
        mask="decoder_attention_mask",
        part="decoder",
        optional=True,
    ),
    "encoder": "encoder.**",
    "decoder": "decoder.**",
    "within": "decoder",
    "between": "decoder.**.crossattention",
}
# Config of a tiny BERT that reads or writes words.
WORDS = {"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = {**SIZES, **WORDS, "max_position_embeddings": 40, "tie_word_embeddings": False}


def tiny_composed(
    kind: str, encoder: tuple[str, Mapping[str, Any]], decoder: tuple[str, Mapping[str, Any]]
) -> Callable[..., nn.Module]:
    """Return a function that builds a tiny model, as `tiny_model` does.

    Args:
        kind: The class without its ending, such as "VisionEncoderDecoder".
        encoder: The encoder's config class and sizes.
        decoder: The same for the decoder.
    """

    def build(*, seed: int = 0, **changes: Any) -> nn.Module:
        import transformers

        parts = [getattr(transformers, name)(**sizes) for name, sizes in (encoder, decoder)]
        config = getattr(transformers, f"{kind}Config").from_encoder_decoder_configs(*parts)
        config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 1, 0, 2
        return tiny_model(f"{kind}Model", **config.to_dict())(seed=seed, **changes)

    return build

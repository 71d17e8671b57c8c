"""VisionEncoderDecoderModel: any vision transformer with any text decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from whyformer.models.families.encoder_decoder import encoder_decoder
from whyformer.models.families.family import Source, families
from whyformer.models.families.tiny import IMAGE, SIZES, tiny_model


def prefix_tokens(config: Any) -> int:
    """The number of tokens before the patches, from the encoder's family."""
    kind = config.encoder.model_type
    found = (f.prefix_tokens(config.encoder) for f in families.values() if kind in f.model_types)
    return next(found, 0)


def _tiny(decoder: str, **sizes: Any) -> Callable[..., nn.Module]:
    """Return a function that builds a tiny ViT with a decoder of the given config class."""

    def build(*, seed: int = 0, **changes: Any) -> nn.Module:
        import transformers

        vision = {k: v for k, v in IMAGE.items() if k != "num_labels"}
        config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
            transformers.ViTConfig(**vision), getattr(transformers, decoder)(**sizes)
        )
        config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 1, 0, 2
        return tiny_model("VisionEncoderDecoderModel", **config.to_dict())(seed=seed, **changes)

    return build


_WORDS = {"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

vision_encoder_decoder = encoder_decoder(
    "vision_encoder_decoder",
    title="VisionEncoderDecoderModel (TrOCR, ViT-GPT2, Donut)",
    model_types=("vision-encoder-decoder",),
    source=Source("image", "pixel_values", kind="pixels", part="encoder"),
    generated=Source(
        "generated",
        "decoder_input_ids",
        mask="decoder_attention_mask",
        part="decoder",
        optional=True,
    ),
    encoder="encoder.**",
    decoder="decoder.**",
    within="decoder",
    between="decoder.**.crossattention",
    prefix_tokens=prefix_tokens,
    unread=("encoder.pooler.",),
    tiny=_tiny(
        "BertConfig", **SIZES, **_WORDS, max_position_embeddings=40, tie_word_embeddings=False
    ),
    variants={
        "vision_gpt2": _tiny(
            "GPT2Config", n_embd=32, n_layer=2, n_head=4, n_inner=48, n_positions=40, **_WORDS
        ),
    },
)

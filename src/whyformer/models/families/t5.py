"""T5 (Raffel et al., 2020): pre-norm with RMS norms, relative positions in the additive mask."""

from whyformer.models.families.encoder_decoder import TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

SIZES = {
    "vocab_size": 60,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
BLOCKS = {
    "encoder": "encoder.block",
    "decoder": "decoder.block",
    "within": "decoder.block.*.layer.*.SelfAttention",
    "between": "decoder.block.*.layer.*.EncDecAttention",
}

t5 = encoder_decoder(
    "t5",
    title="T5, mT5, FLAN-T5",
    model_types=("t5", "mt5"),
    classes=(
        "T5ForConditionalGeneration",
        "T5Model",
        "MT5ForConditionalGeneration",
        "MT5Model",
    ),
    source=TEXT_SOURCE,
    tiny=tiny_model("T5ForConditionalGeneration", **SIZES),
    # The first T5 has ReLU, later versions a gated GELU.
    relu=tiny_model("T5ForConditionalGeneration", **SIZES, feed_forward_proj="relu"),
    variants={
        "t5_gated": tiny_model(
            "T5ForConditionalGeneration", **SIZES, feed_forward_proj="gated-gelu"
        ),
    },
    **BLOCKS,
)

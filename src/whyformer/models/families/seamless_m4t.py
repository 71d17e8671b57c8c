"""SeamlessM4T (Seamless communication, 2023), both versions, from text to text."""

from whyformer.models.families.encoder_decoder import SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

_LAYERS = {"d_model", "encoder_layers", "decoder_layers"}
_SIZES = {
    **{k: v for k, v in SIZES.items() if k not in _LAYERS},
    "hidden_size": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "speech_encoder_layers": 1,
    "speech_encoder_attention_heads": 4,
    "speech_encoder_intermediate_size": 32,
    "t2u_encoder_layers": 1,
    "t2u_decoder_layers": 1,
    "feature_projection_input_dim": 8,
    "t2u_vocab_size": 20,
}

seamless_m4t = encoder_decoder(
    "seamless_m4t",
    title="SeamlessM4T, text to text",
    model_types=("seamless_m4t", "seamless_m4t_v2"),
    classes=("SeamlessM4TForTextToText", "SeamlessM4Tv2ForTextToText"),
    source=TEXT_SOURCE,
    encoder="text_encoder.layers",
    decoder="text_decoder.layers",
    within="text_decoder.layers.*.self_attn",
    between="text_decoder.layers.*.cross_attention",
    tiny=tiny_model("SeamlessM4TForTextToText", **_SIZES),
    variants={"seamless_m4t_v2": tiny_model("SeamlessM4Tv2ForTextToText", **_SIZES)},
)

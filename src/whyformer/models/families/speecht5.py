"""SpeechT5 (Ao et al., 2022), from speech to text: wav2vec 2.0's convolutions before T5."""

from dataclasses import replace

from whyformer.models.families.encoder_decoder import SIZES, encoder_decoder
from whyformer.models.families.speech import SPEECH, WAVEFORM
from whyformer.models.families.tiny import tiny_model

_SIZES = {
    **{k: v for k, v in SPEECH.items() if k.startswith(("conv", "feat", "num_conv", "num_feat"))},
    "hidden_size": 32,
    "vocab_size": 60,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_speech_positions": 60,
    "max_text_positions": 40,
    **{k: v for k, v in SIZES.items() if k.endswith("token_id") and k != "forced_eos_token_id"},
}

speecht5 = encoder_decoder(
    "speecht5",
    title="SpeechT5, speech to text",
    model_types=("speecht5",),
    classes=("SpeechT5ForSpeechToText",),
    source=replace(WAVEFORM, padding=False),  # a convolution of positions reads it
    encoder="speecht5.encoder.wrapped_encoder.layers",
    decoder="speecht5.decoder.wrapped_decoder.layers",
    within="speecht5.decoder.wrapped_decoder.layers.*.self_attn",
    between="speecht5.decoder.wrapped_decoder.layers.*.encoder_attn",
    tiny=tiny_model("SpeechT5ForSpeechToText", **_SIZES),
)

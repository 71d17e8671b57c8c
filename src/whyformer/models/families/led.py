"""LED (Beltagy et al., 2020): BART whose encoder attends within a sliding window."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

_SIZES = {
    **{k: v for k, v in SIZES.items() if k != "max_position_embeddings"},
    "max_encoder_position_embeddings": 40,
    "max_decoder_position_embeddings": 40,
    "attention_window": 4,
}

led = encoder_decoder(
    "led",
    title="LED",
    model_types=("led",),
    classes=("LEDForConditionalGeneration", "LEDModel"),
    source=TEXT_SOURCE,
    pads=True,
    without_maps="its encoder attends within a sliding window",
    tiny=tiny_model("LEDForConditionalGeneration", **_SIZES),
    **BART,
)

"""Chinese CLIP (Yang et al., 2022): CLIP whose text encoder is a BERT, read at its class token."""

from whyformer.models.families.clip import TEXT, VISION, two_towers
from whyformer.models.families.tiny import tiny_model

chinese_clip = two_towers(
    "chinese_clip",
    title="Chinese CLIP",
    model_types=("chinese_clip",),
    classes=("ChineseCLIPModel",),
    text_blocks="text_model.encoder.layer",
    beside=("token_type_ids", "position_ids"),
    tiny=tiny_model("ChineseCLIPModel", text_config=TEXT, vision_config=VISION, projection_dim=12),
)

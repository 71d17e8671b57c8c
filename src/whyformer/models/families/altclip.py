"""AltCLIP (Chen et al., 2022): CLIP whose text encoder is an XLM-RoBERTa."""

from whyformer.models.families.clip import TEXT, VISION, two_towers
from whyformer.models.families.tiny import tiny_model

altclip = two_towers(
    "altclip",
    title="AltCLIP",
    model_types=("altclip",),
    classes=("AltCLIPModel",),
    text_blocks="text_model.roberta.encoder.layers",
    beside=("token_type_ids", "position_ids"),
    tiny=tiny_model(
        "AltCLIPModel",
        text_config={**TEXT, "project_dim": 16},
        vision_config=VISION,
        projection_dim=16,
    ),
)

"""MetaCLIP 2 (Chuang et al., 2025): CLIP for many languages."""

from whyformer.models.families.clip import TEXT, VISION, two_towers
from whyformer.models.families.tiny import tiny_model

metaclip_2 = two_towers(
    "metaclip_2",
    title="MetaCLIP 2",
    model_types=("metaclip_2",),
    classes=("MetaClip2Model",),
    text_blocks="text_model.encoder.layers",
    tiny=tiny_model("MetaClip2Model", text_config=TEXT, vision_config=VISION, projection_dim=16),
)

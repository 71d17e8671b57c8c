"""OWL-ViT (Minderer et al., 2022): each patch of an image is compared with a text."""

from whyformer.models.families.clip import TEXT, VISION, two_towers
from whyformer.models.families.tiny import tiny_model

SIZES = {"text_config": TEXT, "vision_config": VISION, "projection_dim": 32}

owlvit = two_towers(
    "owlvit",
    title="OWL-ViT",
    model_types=("owlvit",),
    classes=("OwlViTForObjectDetection",),
    inside="owlvit",
    text_blocks="text_model.encoder.layers",
    tiny=tiny_model("OwlViTForObjectDetection", **SIZES),
)

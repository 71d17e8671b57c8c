"""OWL-ViT (Minderer et al., 2022) and OWLv2: each patch of an image is compared with a text."""

from whyformer.models.families.clip import TEXT, VISION, two_towers
from whyformer.models.families.tiny import tiny_model

_SIZES = {"text_config": TEXT, "vision_config": VISION, "projection_dim": 32}

owlvit = two_towers(
    "owlvit",
    title="OWL-ViT",
    model_types=("owlvit",),
    classes=("OwlViTForObjectDetection",),
    inside="owlvit",
    text_blocks="text_model.encoder.layers",
    tiny=tiny_model("OwlViTForObjectDetection", **_SIZES),
)
owlv2 = two_towers(
    "owlv2",
    title="OWLv2",
    model_types=("owlv2",),
    classes=("Owlv2ForObjectDetection",),
    inside="owlv2",
    text_blocks="text_model.encoder.layers",
    tiny=tiny_model("Owlv2ForObjectDetection", **_SIZES),
)

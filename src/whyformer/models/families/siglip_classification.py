"""SigLIP's image encoder with a classifier on the mean of the patches; its probe is not read."""

from whyformer.models.families.clip import TEXT, VISION
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

siglip_classification = declare(
    "siglip_classification",
    title="SigLIP, image classification",
    stream="image",
    model_types=("siglip",),
    classes=("SiglipForImageClassification",),
    sources=(Source("image", "pixel_values", kind="pixels", part="vision_model"),),
    stacks=(
        Stack(("image",), "vision_model.encoder.layers"),
        Stack(("probe",), "", leaves="vision_model.head.attention", hidden=True),
    ),
    attention={"vision_model.encoder": ("image", "image"), "vision_model.head": ("probe", "image")},
    unread=("vision_model.head.",),
    tiny=tiny_model(
        "SiglipForImageClassification", text_config=TEXT, vision_config=VISION, num_labels=3
    ),
)

"""SigLIP (Zhai et al., 2023): two encoders; a probe attends to the patches to pool the image."""

from whyformer.models.families.clip import TEXT, VISION
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

siglip = declare(
    "siglip",
    title="SigLIP",
    stream="text",
    model_types=("siglip",),
    classes=("SiglipModel",),
    sources=(
        # The model reads the last column, so texts are padded to all positions, as in training.
        Source(
            "text",
            "input_ids",
            mask="attention_mask",
            beside=("position_ids",),
            part="text_model",
            padding=False,
            full=True,
        ),
        Source("image", "pixel_values", kind="pixels", part="vision_model"),
    ),
    stacks=(
        Stack(("text",), "text_model.encoder.layers"),
        Stack(("image",), "vision_model.encoder.layers", read=False),
        Stack(("probe",), "", leaves="vision_model.head.attention", hidden=True),
    ),
    attention={
        "text_model.encoder": ("text", "text"),
        "vision_model.encoder": ("image", "image"),
        "vision_model.head": ("probe", "image"),
    },
    tiny=tiny_model(
        "SiglipModel", text_config={**TEXT, "projection_size": 32}, vision_config=VISION
    ),
)

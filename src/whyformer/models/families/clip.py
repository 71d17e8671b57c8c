"""CLIP (Radford et al., 2021): separate text and image encoders; the target is their similarity."""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import IMAGE, SIZES, tiny_model

TEXT = {
    **SIZES,
    "vocab_size": 60,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 59,
}
VISION = {k: v for k, v in IMAGE.items() if k != "num_labels"}
clip = declare(
    "clip",
    title="CLIP",
    stream="text",
    model_types=("clip",),
    classes=("CLIPModel",),
    sources=(
        Source(
            "text", "input_ids", mask="attention_mask", beside=("position_ids",), part="text_model"
        ),
        Source("image", "pixel_values", kind="pixels", part="vision_model"),
    ),
    stacks=(
        Stack(("text",), "text_model.encoder.layers"),
        Stack(("image",), "vision_model.encoder.layers"),
    ),
    attention={"text_model.encoder": ("text", "text"), "vision_model.encoder": ("image", "image")},
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("CLIPModel", text_config=TEXT, vision_config=VISION, projection_dim=16),
)

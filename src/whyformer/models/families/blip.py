"""Shared by the BLIP heads (Li et al., 2022): a vision encoder, and text that attends to it."""

from whyformer.models.families.clip import TEXT, VISION
from whyformer.models.families.family import Source, Stack

SIZES = {
    "text_config": {**TEXT, "sep_token_id": 2, "encoder_hidden_size": 32},
    "vision_config": VISION,
    "projection_dim": 16,
    "image_text_hidden_size": 16,
}
IMAGE = Source("image", "pixel_values", kind="pixels", part="vision_model")
IMAGE_STACK = Stack(("image",), "vision_model.encoder.layers", read=False)
IMAGE_ATTENTION = {"vision_model.encoder": ("image", "image")}


def text_attention(path: str, text: str, attended: str) -> dict[str, tuple[str, str]]:
    """The attention table of a text stack: self-attention, and cross-attention to a stream."""
    return {
        f"{path}.*.attention": (text, text),
        f"{path}.*.crossattention": (text, attended),
    }

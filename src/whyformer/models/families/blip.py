"""What BLIP's three heads share (Li et al., 2022): one vision tower, and texts that ask it."""

from whyformer.models.families.clip import TEXT, VISION
from whyformer.models.families.family import Source, Stack

SIZES = {
    "text_config": {**TEXT, "sep_token_id": 2, "encoder_hidden_size": 32},
    "vision_config": VISION,
    "projection_dim": 16,
    "image_text_hidden_size": 16,
}
IMAGE = Source("image", "pixel_values", kind="pixels", part="vision_model")
SEEN = Stack(("image",), "vision_model.encoder.layers", read=False)
ASKED = {"vision_model.encoder": ("image", "image")}


def asking(path: str, asks: str, answers: str) -> dict[str, tuple[str, str]]:
    """A text stack's table: self-attention, and the cross attention beside it."""
    return {
        f"{path}.*.attention": (asks, asks),
        f"{path}.*.crossattention": (asks, answers),
    }

"""YOLOS (Fang et al., 2021): a vision transformer with detection tokens after the patches."""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import IMAGE, tiny_model

_SIZES = {**IMAGE, "image_size": [12, 12], "num_detection_tokens": 4}

yolos = declare(
    "yolos",
    title="YOLOS",
    stream="image",
    model_types=("yolos",),
    classes=("YolosForObjectDetection",),
    sources=(Source("image", "pixel_values", kind="pixels"),),
    stacks=(Stack(("image", "queries"), "encoder.layer"),),
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("YolosForObjectDetection", **_SIZES),
)

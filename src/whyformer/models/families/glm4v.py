"""GLM-4V (Hong et al., 2025): images of any size, a token for every 2 x 2 patches."""

from whyformer.models.families.qwen2_vl import PACKED, TEXT, VISION
from whyformer.models.families.vision_language import VIDEO_ID, tiny_vlm, vision_language

glm4v = vision_language(
    "glm4v",
    title="GLM-4V",
    model_types=("glm4v",),
    # Frames of a video have the placeholder of images: a video is refused.
    soft=PACKED[:1],
    tiny=tiny_vlm(
        "Glm4vForConditionalGeneration",
        {
            **VISION,
            "hidden_size": 32,
            "intermediate_size": 48,
            "out_hidden_size": 32,
            "image_size": 16,
        },
        TEXT,
        video_token_id=VIDEO_ID,
    ),
)

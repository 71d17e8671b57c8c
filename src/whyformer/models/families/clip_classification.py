"""CLIP's image encoder with a classifier on the mean of the patches, without the class token."""

from whyformer.models.families.clip import TEXT, VISION
from whyformer.models.families.family import Source, declare
from whyformer.models.families.tiny import tiny_model

clip_classification = declare(
    "clip_classification",
    title="CLIP, MetaCLIP 2, image classification",
    stream="image",
    model_types=("clip", "metaclip_2"),
    classes=("CLIPForImageClassification", "MetaClip2ForImageClassification"),
    sources=(Source("image", "pixel_values", kind="pixels", part="vision_model"),),
    blocks="vision_model.encoder.layers",
    prefix_tokens=lambda config: 1,
    tiny=tiny_model(
        "CLIPForImageClassification", text_config=TEXT, vision_config=VISION, num_labels=3
    ),
    variants={
        "metaclip_2_classification": tiny_model(
            "MetaClip2ForImageClassification", text_config=TEXT, vision_config=VISION, num_labels=3
        ),
    },
)

"""ViT (Dosovitskiy et al., 2021): a class token before the patches, pre-norm, a linear head."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import IMAGE, tiny_model

vit = declare(
    "vit",
    title="Vision Transformer",
    stream="image",
    model_types=("vit",),
    blocks="layers",
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("ViTForImageClassification", **IMAGE),
    relu=tiny_model("ViTForImageClassification", **IMAGE, hidden_act="relu"),
)

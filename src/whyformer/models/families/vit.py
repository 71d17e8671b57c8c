"""ViT (Dosovitskiy et al., 2021): a class token before the patches, pre-norm, a linear head."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import IMAGE, tiny_model

vit = declare(
    "vit",
    title="Vision Transformer, MSN, I-JEPA",
    stream="image",
    model_types=("vit", "ijepa", "vit_msn"),
    blocks="layers",
    # I-JEPA has no class token: its head reads the mean of the patches.
    prefix_tokens=lambda config: int(config.model_type != "ijepa"),
    tiny=tiny_model("ViTForImageClassification", **IMAGE),
    relu=tiny_model("ViTForImageClassification", **IMAGE, hidden_act="relu"),
    variants={"ijepa": tiny_model("IJepaForImageClassification", **IMAGE)},
)

"""BEiT (Bao et al., 2022): a learned position bias in the attention mask, and scaled residuals.

The bias requires gradient, so the attention mask is not a constant. By default all patches
decide: the head reads the norm of their mean, not the class token.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import IMAGE, tiny_model

SIZES = {**IMAGE, "use_relative_position_bias": True}

beit = declare(
    "beit",
    title="BEiT",
    stream="image",
    model_types=("beit",),
    blocks="layers",
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("BeitForImageClassification", **SIZES),
    relu=tiny_model("BeitForImageClassification", **SIZES, hidden_act="relu"),
    variants={
        "beit_class_token": tiny_model(
            "BeitForImageClassification",
            **IMAGE,
            use_shared_relative_position_bias=True,
            use_absolute_position_embeddings=True,
            use_mean_pooling=False,
        ),
    },
)

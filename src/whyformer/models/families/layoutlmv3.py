"""LayoutLMv3 (Huang et al., 2022): words with boxes, then a class token and the page's patches.

The page is optional. Boxes belong to the words: they are a part of each word's embedding.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import ENCODER, tiny_model

SIZES = {
    **ENCODER,
    "pad_token_id": 1,
    "max_2d_position_embeddings": 64,
    "coordinate_size": 4,
    "shape_size": 8,
    "input_size": 16,
    "patch_size": 8,
}

layoutlmv3 = declare(
    "layoutlmv3",
    title="LayoutLMv3",
    stream="text",
    model_types=("layoutlmv3",),
    sources=(
        Source(
            "text",
            "input_ids",
            mask="attention_mask",
            beside=("bbox", "token_type_ids", "position_ids"),
        ),
        Source("image", "pixel_values", kind="pixels", optional=True),
    ),
    stacks=(Stack(("text", "image"), "encoder.layer"),),
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("LayoutLMv3ForSequenceClassification", **SIZES),
)

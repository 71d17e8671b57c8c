"""VisualBERT (Li et al., 2019): text tokens followed by image regions in one sequence."""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import ENCODER, tiny_model

_SIZES = {**ENCODER, "visual_embedding_dim": 12}

visual_bert = declare(
    "visual_bert",
    title="VisualBERT",
    stream="text",
    model_types=("visual_bert",),
    sources=(
        Source(
            "text", "input_ids", mask="attention_mask", beside=("token_type_ids", "position_ids")
        ),
        Source(
            "image",
            "visual_embeds",
            kind="features",
            mask="visual_attention_mask",
            beside=("visual_token_type_ids", "image_text_alignment"),
            widths={"visual_embeds": "visual_embedding_dim"},
        ),
    ),
    stacks=(Stack(("text", "image"), "encoder.layer"),),
    tiny=tiny_model("VisualBertForQuestionAnswering", **_SIZES),
    relu=tiny_model("VisualBertForQuestionAnswering", **_SIZES, hidden_act="relu"),
)

"""LXMERT (Tan and Bansal, 2019): encoders of text and image regions, then cross-attention.

A layer's cross-attention is one module, called twice on the same states: text to image and image
to text. Neither call sees the other's result.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

_SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "l_layers": 2,
    "r_layers": 1,
    "x_layers": 2,
    "visual_feat_dim": 12,
    "visual_pos_dim": 4,
    "num_qa_labels": 5,
    "pad_token_id": 0,
}

lxmert = declare(
    "lxmert",
    title="LXMERT",
    stream="text",
    model_types=("lxmert",),
    sources=(
        Source("text", "input_ids", mask="attention_mask", beside=("token_type_ids",)),
        Source(
            "image",
            "visual_feats",
            kind="features",
            mask="visual_attention_mask",
            beside=("visual_pos",),
            boxes="visual_pos",
            widths={"visual_feats": "visual_feat_dim", "visual_pos": "visual_pos_dim"},
        ),
    ),
    stacks=(
        Stack(("text",), "encoder.layer", leaves="encoder.x_layers.-1.lang_output"),
        Stack(("image",), "encoder.r_layers", leaves="encoder.x_layers.-1.visn_output"),
    ),
    attention={
        "encoder.layer.*": ("text", "text"),
        "encoder.r_layers.*": ("image", "image"),
        "encoder.x_layers.*.lang_self_att": ("text", "text"),
        "encoder.x_layers.*.visn_self_att": ("image", "image"),
        "encoder.x_layers.*.visual_attention": (("text", "image"), ("image", "text")),
    },
    tiny=tiny_model("LxmertForQuestionAnswering", **_SIZES),
)

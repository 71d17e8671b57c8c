"""OPT (Zhang et al., 2022): a decoder with ReLU and learned positions, counted by the mask."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

SIZES = {
    **{k: v for k, v in DECODER.items() if k not in ("head_dim", "num_key_value_heads")},
    "ffn_dim": DECODER["intermediate_size"],
    "word_embed_proj_dim": DECODER["hidden_size"],
}

opt = declare(
    "opt",
    title="OPT",
    stream="text",
    causal=True,
    model_types=("opt",),
    blocks="decoder.layers",
    tiny=tiny_model("OPTForCausalLM", **SIZES),
    relu=tiny_model("OPTForCausalLM", **SIZES),
    variants={
        # opt-350m: norms after the residual sums, and embeddings of another width.
        "opt_350m": tiny_model(
            "OPTForCausalLM",
            **{**SIZES, "word_embed_proj_dim": 16},
            do_layer_norm_before=False,
        ),
    },
)

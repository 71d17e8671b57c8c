"""GPT-2 (Radford et al., 2019): linear layers as `addmm`, learned positions, `gelu_new`.

Learned positions count from the first column, so a left-padded batch needs `position_ids`.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

# Its config uses other names for the sizes.
SIZES = {
    "vocab_size": DECODER["vocab_size"],
    "n_embd": DECODER["hidden_size"],
    "n_layer": DECODER["num_hidden_layers"],
    "n_head": DECODER["num_attention_heads"],
    "n_inner": DECODER["intermediate_size"],
    "n_positions": DECODER["max_position_embeddings"],
    "bos_token_id": DECODER["bos_token_id"],
    "eos_token_id": DECODER["eos_token_id"],
}

gpt2 = declare(
    "gpt2",
    title="GPT-2",
    stream="text",
    causal=True,
    model_types=("gpt2",),
    blocks="h",
    tiny=tiny_model("GPT2LMHeadModel", **SIZES),
    relu=tiny_model("GPT2LMHeadModel", **SIZES, activation_function="relu"),
)

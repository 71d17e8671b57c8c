"""GPT-2 (Radford et al., 2019) and decoders built like it, with their blocks in `h`.

Linear layers run as `addmm`, the activation `gelu_new` as several operations. Learned positions
count from the first column, so a left-padded batch needs `position_ids`. GPT-J and CodeGen have
rotary positions, and run attention and MLP in parallel.
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
    title="GPT-2, GPT, GPT-J, GPT-Neo, GPTBigCode (StarCoder), CodeGen, CTRL",
    stream="text",
    causal=True,
    model_types=(
        "gpt2",
        "codegen",
        "ctrl",
        "gpt_bigcode",
        "gpt_neo",
        "gptj",
        "openai-gpt",
    ),
    blocks="h",
    tiny=tiny_model("GPT2LMHeadModel", **SIZES),
    relu=tiny_model("GPT2LMHeadModel", **SIZES, activation_function="relu"),
    variants={"gptj": tiny_model("GPTJForCausalLM", **SIZES, rotary_dim=4)},
)

"""Llama (Touvron et al., 2023) and decoders like it: RMS norms, gated units, rotary positions.

What differs between them is arithmetic that the rules see by themselves: where the norms stand,
whether attention and MLP run in parallel, windows, multipliers, latent attention, experts with
sigmoid routing. The path of the blocks and causality are common to all.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, EXPERTS, tiny_model

# DeepSeek's queries, keys and values come from smaller latent states (Liu et al., 2024).
LATENT = {
    **{k: v for k, v in DECODER.items() if k != "num_key_value_heads"},
    "q_lora_rank": 12,
    "kv_lora_rank": 12,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
    "head_dim": 4,
    "num_key_value_heads": 4,
}

llama = declare(
    "llama",
    title="Llama, Mistral, Ministral, Phi, OLMo, StableLM, StarCoder2, Granite, Cohere, SmolLM3,"
    " GLM, DeepSeek-V3, EXAONE 4, Nemotron, Helium, Persimmon, BitNet, Hunyuan, ERNIE 4.5, Arcee,"
    " Seed-OSS, CWM, nanochat, Youtu, MiniMax-M2",
    stream="text",
    causal=True,
    model_types=(
        "llama",
        "arcee",
        "bitnet",
        "cohere",
        "cohere2",
        "cwm",
        "deepseek_v3",
        "ernie4_5",
        "exaone4",
        "glm",
        "glm4",
        "glm4_moe",
        "granite",
        "helium",
        "hunyuan_v1_dense",
        "minimax_m2",
        "ministral",
        "ministral3",
        "mistral",
        "nanochat",
        "nemotron",
        "olmo",
        "olmo2",
        "olmo3",
        "persimmon",
        "phi",
        "phi3",
        "seed_oss",
        "smollm3",
        "stablelm",
        "starcoder2",
        "youtu",
    ),
    blocks="layers",
    tiny=tiny_model("LlamaForCausalLM", **DECODER),
    variants={
        # Attention and MLP read the same states and are added together.
        "phi": tiny_model("PhiForCausalLM", **DECODER),
        # One layer of one MLP, one of experts, a sigmoid for each, chosen by groups.
        "deepseek_v3": tiny_model(
            "DeepseekV3ForCausalLM",
            **{**LATENT, **EXPERTS},
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
        ),
    },
)

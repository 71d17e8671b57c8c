"""Gemma 1 to 3, text (Gemma Team, 2024, 2025): RMS norms with gain 1 + w, gated tanh-GELU.

Embeddings are scaled by sqrt(hidden) before block one. Gemma 2 has no fused attention: it
caps scores and final logits with tanh. Gemma 2 and 3 add norms after attention and MLP, and layers
with sliding-window attention.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

# The window is shorter than tiny inputs, so that it has an effect. One layer of each kind.
WINDOWED = {
    **DECODER,
    "query_pre_attn_scalar": DECODER["head_dim"],
    "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention"],
}

gemma = declare(
    "gemma",
    title="Gemma, Gemma 2, Gemma 3 (text), VaultGemma",
    stream="text",
    causal=True,
    model_types=("gemma", "gemma2", "gemma3_text", "vaultgemma"),
    blocks="layers",
    tiny=tiny_model("GemmaForCausalLM", **DECODER),
    variants={
        "gemma2": tiny_model("Gemma2ForCausalLM", **WINDOWED),
        "gemma3": tiny_model("Gemma3ForCausalLM", **WINDOWED),
    },
)

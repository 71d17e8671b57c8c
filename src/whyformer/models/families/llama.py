"""Llama (Touvron et al., 2023): hand-written RMS norms, gated SiLU, grouped-query attention."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

llama = declare(
    "llama",
    title="Llama",
    stream="text",
    causal=True,
    model_types=("llama",),
    blocks="layers",
    tiny=tiny_model("LlamaForCausalLM", **DECODER),
)

"""Llama (Touvron et al., 2023): hand-written RMS norms, gated SiLU, grouped heads, no biases."""

from whyformer.families.family import family
from whyformer.families.tiny import DECODER, tiny_model

llama = family(
    "llama",
    title="Llama",
    stream="text",
    causal=True,
    model_types=("llama",),
    blocks="layers",
    tiny=tiny_model("LlamaForCausalLM", **DECODER),
)

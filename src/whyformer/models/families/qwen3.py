"""Qwen3 (Yang et al., 2025): Llama with an RMS norm on every query and key head."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

qwen3 = declare(
    "qwen3",
    title="Qwen3",
    stream="text",
    causal=True,
    model_types=("qwen3",),
    blocks="layers",
    tiny=tiny_model("Qwen3ForCausalLM", **DECODER),
)

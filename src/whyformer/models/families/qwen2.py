"""Qwen2 and Qwen2.5 (Yang et al., 2024): Llama with biases on query, key and value."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

qwen2 = declare(
    "qwen2",
    title="Qwen2, Qwen2.5",
    stream="text",
    causal=True,
    model_types=("qwen2",),
    blocks="layers",
    tiny=tiny_model("Qwen2ForCausalLM", **DECODER),
)

"""ModernBERT as a decoder (Weller et al., 2025, Ettin): causal layers, some with a window."""

from whyformer.models.families.family import declare
from whyformer.models.families.modernbert import SIZES
from whyformer.models.families.tiny import tiny_model

modernbert_decoder = declare(
    "modernbert_decoder",
    title="ModernBERT decoder (Ettin)",
    stream="text",
    causal=True,
    model_types=("modernbert-decoder",),
    blocks="layers",
    tiny=tiny_model("ModernBertDecoderForCausalLM", **SIZES),
)

"""BioGPT (Luo et al., 2022) and XGLM (Lin et al., 2022): BART's decoder without its encoder."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

SIZES = {k: v for k, v in DECODER.items() if k not in ("head_dim", "num_key_value_heads")}

biogpt = declare(
    "biogpt",
    title="BioGPT, XGLM",
    stream="text",
    causal=True,
    model_types=("biogpt", "xglm"),
    blocks="layers",
    tiny=tiny_model("BioGptForCausalLM", **SIZES),
    relu=tiny_model("BioGptForCausalLM", **SIZES, hidden_act="relu"),
)

"""GPT-NeoX and Pythia (Black et al., 2022): attention and MLP in parallel, norms with biases."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

SIZES = {k: v for k, v in DECODER.items() if k not in ("head_dim", "num_key_value_heads")}

gpt_neox = declare(
    "gpt_neox",
    title="GPT-NeoX, Pythia",
    stream="text",
    causal=True,
    model_types=("gpt_neox", "gpt_neox_japanese"),
    blocks="layers",
    tiny=tiny_model("GPTNeoXForCausalLM", **SIZES),
    relu=tiny_model("GPTNeoXForCausalLM", **SIZES, hidden_act="relu"),
)

"""MPT (MosaicML, 2023): no position embeddings, but a bias by distance in the scores (ALiBi)."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import DECODER, tiny_model

SIZES = {
    "vocab_size": DECODER["vocab_size"],
    "d_model": DECODER["hidden_size"],
    "n_heads": DECODER["num_attention_heads"],
    "n_layers": DECODER["num_hidden_layers"],
    "max_seq_len": DECODER["max_position_embeddings"],
    "expansion_ratio": 2,
    "pad_token_id": 0,
}

mpt = declare(
    "mpt",
    title="MPT",
    stream="text",
    causal=True,
    model_types=("mpt",),
    blocks="blocks",
    tiny=tiny_model("MptForCausalLM", **SIZES),
)

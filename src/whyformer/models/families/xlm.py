"""XLM (Conneau and Lample, 2019) and FlauBERT (Le et al., 2020): blocks in parallel lists.

The lists `attentions`, `layer_norm1`, `ffns` and `layer_norm2` have one entry per layer each; the
model's forward walks through all of them. States enter the first attention and leave the last
norm. Padding is masked in place, outside of the graph: the rules need what that would overwrite.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import ENCODER, tiny_model

SIZES = {
    "vocab_size": ENCODER["vocab_size"],
    "emb_dim": ENCODER["hidden_size"],
    "n_layers": ENCODER["num_hidden_layers"],
    "n_heads": ENCODER["num_attention_heads"],
    "max_position_embeddings": ENCODER["max_position_embeddings"],
    "num_labels": ENCODER["num_labels"],
    "pad_token_id": 0,
}


def hide_padding(ledger: Any, function: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """x.masked_fill_(mask, lowest) outside of the graph: by the softmax, its gradient is 0."""
    args[0].data.masked_fill_(*args[1:], **kwargs)
    filled: Tensor = args[0]
    return filled


xlm = declare(
    "xlm",
    title="XLM, FlauBERT",
    stream="text",
    model_types=("xlm", "flaubert"),
    sources=(
        Source(
            "text",
            "input_ids",
            mask="attention_mask",
            beside=("token_type_ids", "position_ids", "langs"),
        ),
    ),
    stacks=(Stack(("text",), "attentions", leaves="layer_norm2.-1"),),
    rules={Tensor.masked_fill_: hide_padding},
    tiny=tiny_model("XLMForSequenceClassification", **SIZES),
)

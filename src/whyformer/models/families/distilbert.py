"""DistilBERT (Sanh et al., 2019): BERT without token types, and a ReLU head on [CLS]."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

# Its config uses other names for the sizes.
SIZES = {
    "vocab_size": ENCODER["vocab_size"],
    "dim": ENCODER["hidden_size"],
    "n_layers": ENCODER["num_hidden_layers"],
    "n_heads": ENCODER["num_attention_heads"],
    "hidden_dim": ENCODER["intermediate_size"],
    "max_position_embeddings": ENCODER["max_position_embeddings"],
    "num_labels": ENCODER["num_labels"],
    "pad_token_id": ENCODER["pad_token_id"],
}

distilbert = declare(
    "distilbert",
    title="DistilBERT",
    stream="text",
    model_types=("distilbert",),
    blocks="transformer.layer",
    tiny=tiny_model("DistilBertForSequenceClassification", **SIZES),
    relu=tiny_model("DistilBertForSequenceClassification", **SIZES, activation="relu"),
)

"""ModernBERT (Warner et al., 2024): pre-norm, rotary positions, gated MLPs, local layers.

ModernBERT's block one has no attention norm, because the embedding has one. Every third layer has
global attention, the others a window. The head pools [CLS] or the mean, depending on the config.
Other encoders with rotary positions have their blocks at the same place.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

SIZES = {
    **ENCODER,
    "local_attention": 4,  # two tokens to each side, so that the window affects tiny inputs
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}

modernbert = declare(
    "modernbert",
    title="ModernBERT, EuroBERT, NomicBERT, GTE, Jina v3, ESM C",
    stream="text",
    model_types=("modernbert", "esmc", "eurobert", "gte", "jina_embeddings_v3", "nomic_bert"),
    blocks="layers",
    tiny=tiny_model("ModernBertForSequenceClassification", **SIZES),
    variants={
        "modernbert_mean": tiny_model(
            "ModernBertForSequenceClassification",
            **SIZES,
            classifier_pooling="mean",
            norm_bias=True,
            attention_bias=True,
            mlp_bias=True,
        ),
    },
)

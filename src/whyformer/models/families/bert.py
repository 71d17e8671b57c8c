"""BERT (Devlin et al., 2019): a norm after each residual sum, and a tanh pooler on [CLS].

Encoders with the same blocks differ in what they add to the embedded tokens (layout, tables,
markup, pronunciation) or in the attention's positions; the rules see both by themselves.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

bert = declare(
    "bert",
    title="BERT, ERNIE, Megatron-BERT, RemBERT, RoCBert, RoFormer, LayoutLM, TAPAS, MarkupLM",
    stream="text",
    model_types=(
        "bert",
        "ernie",
        "layoutlm",
        "markuplm",
        "megatron-bert",
        "rembert",
        "roc_bert",
        "roformer",
        "tapas",
    ),
    blocks="encoder.layer",
    tiny=tiny_model("BertForSequenceClassification", **ENCODER),
    # The class fixes the pooler's tanh; the token head has no tanh.
    relu=tiny_model("BertForTokenClassification", **ENCODER, hidden_act="relu"),
    variants={
        # Rotary positions on queries, keys and values, and smaller embeddings.
        "roformer": tiny_model("RoFormerForSequenceClassification", **ENCODER, embedding_size=16),
    },
)

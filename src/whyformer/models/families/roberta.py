"""RoBERTa (Liu et al., 2019) and variants: BERT with positions that count from the padding index.

Positions are computed from `input_ids != pad_token_id`, so a batch must be padded with the
model's padding id. Any other id would shift all positions.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

SIZES = {**ENCODER, "pad_token_id": 1}

roberta = declare(
    "roberta",
    title="RoBERTa, XLM-RoBERTa, CamemBERT, data2vec (text), I-BERT, X-MOD, ESM",
    stream="text",
    model_types=(
        "roberta",
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    ),
    blocks="encoder.layer",
    tiny=tiny_model("RobertaForSequenceClassification", **SIZES),
    # The class fixes the sequence head's tanh; the token head has no tanh.
    relu=tiny_model("RobertaForTokenClassification", **SIZES, hidden_act="relu"),
    variants={
        "xlm_roberta": tiny_model("XLMRobertaForSequenceClassification", **SIZES),
        "camembert": tiny_model("CamembertForSequenceClassification", **SIZES),
        # Norms before attention and MLP, rotary positions, and no pooler.
        "esm": tiny_model(
            "EsmForSequenceClassification",
            **SIZES,
            mask_token_id=4,
            position_embedding_type="rotary",
        ),
    },
)

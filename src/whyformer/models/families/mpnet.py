"""MPNet (Song et al., 2020): BERT with a learned bias per distance, added to the scores in place.

It has no fused attention. Positions count from the padding index, as in RoBERTa.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

SIZES = {**ENCODER, "pad_token_id": 1}

mpnet = declare(
    "mpnet",
    title="MPNet",
    stream="text",
    model_types=("mpnet",),
    blocks="encoder.layer",
    tiny=tiny_model("MPNetForSequenceClassification", **SIZES),
    # The class fixes the sequence head's tanh; the token head has no tanh.
    relu=tiny_model("MPNetForTokenClassification", **SIZES, hidden_act="relu"),
)

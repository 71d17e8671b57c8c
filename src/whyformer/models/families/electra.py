"""ELECTRA (Clark et al., 2020): BERT with a smaller embedding, projected before block one.

The sequence head always has a GELU, independent of `hidden_act`.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

SIZES = {**ENCODER, "embedding_size": 16}

electra = declare(
    "electra",
    title="ELECTRA",
    stream="text",
    model_types=("electra",),
    blocks="encoder.layer",
    tiny=tiny_model("ElectraForSequenceClassification", **SIZES),
    relu=tiny_model("ElectraForTokenClassification", **SIZES, hidden_act="relu"),
)

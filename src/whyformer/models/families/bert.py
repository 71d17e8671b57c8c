"""BERT (Devlin et al., 2019): a norm after every residual, and a tanh pooler on [CLS]."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

bert = declare(
    "bert",
    title="BERT",
    stream="text",
    model_types=("bert",),
    blocks="encoder.layer",
    tiny=tiny_model("BertForSequenceClassification", **ENCODER),
    # The pooler's tanh is fixed in the class; the token head has none.
    relu=tiny_model("BertForTokenClassification", **ENCODER, hidden_act="relu"),
)

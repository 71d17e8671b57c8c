"""BERT (Devlin et al., 2019): a norm after each residual sum, and a tanh pooler on [CLS]."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

bert = declare(
    "bert",
    title="BERT",
    stream="text",
    model_types=("bert",),
    blocks="encoder.layer",
    tiny=tiny_model("BertForSequenceClassification", **ENCODER),
    # The class fixes the pooler's tanh; the token head has no tanh.
    relu=tiny_model("BertForTokenClassification", **ENCODER, hidden_act="relu"),
)

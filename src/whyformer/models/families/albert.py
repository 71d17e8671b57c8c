"""ALBERT (Lan et al., 2020): one group of layers, applied repeatedly.

The list of blocks has one entry for all layers. Its first call takes the token states, projected
from the smaller embedding; its last call returns the final states. The activation `gelu_new` runs
as eight operations, and the pooler ends in tanh.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

SIZES = {**ENCODER, "embedding_size": 16}

albert = declare(
    "albert",
    title="ALBERT",
    stream="text",
    model_types=("albert",),
    blocks="encoder.albert_layer_groups",
    tiny=tiny_model("AlbertForSequenceClassification", **SIZES),
    # The class fixes the pooler's tanh; the token head has no tanh.
    relu=tiny_model("AlbertForTokenClassification", **SIZES, hidden_act="relu"),
    variants={
        "albert_groups": tiny_model(
            "AlbertForSequenceClassification", **SIZES, num_hidden_groups=2, inner_group_num=2
        ),
    },
)

"""ALBERT (Lan et al., 2020): one group of layers, called again and again.

The list of blocks therefore has one entry for all layers: the first call of it takes the token
states that enter block one (projected from the smaller embedding), the last gives the final ones.
Its activation is `gelu_new`, which arrives as eight operations, and its pooler ends in tanh.
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
    # The pooler's tanh is fixed in the class; the token head has none.
    relu=tiny_model("AlbertForTokenClassification", **SIZES, hidden_act="relu"),
    variants={
        "albert_groups": tiny_model(
            "AlbertForSequenceClassification", **SIZES, num_hidden_groups=2, inner_group_num=2
        ),
    },
)

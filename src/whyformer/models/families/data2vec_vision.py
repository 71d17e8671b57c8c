"""data2vec for images (Baevski et al., 2022): BEiT with its blocks in an encoder."""

from whyformer.models.families.beit import SIZES
from whyformer.models.families.family import declare
from whyformer.models.families.tiny import tiny_model

data2vec_vision = declare(
    "data2vec_vision",
    title="data2vec (vision)",
    stream="image",
    model_types=("data2vec-vision",),
    blocks="encoder.layer",
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("Data2VecVisionForImageClassification", **SIZES),
    relu=tiny_model("Data2VecVisionForImageClassification", **SIZES, hidden_act="relu"),
)

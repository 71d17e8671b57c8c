"""DeiT (Touvron et al., 2021): ViT with a class and a distillation token before the patches.

`DeiTForImageClassificationWithTeacher` averages a head on each of them, so two tokens decide.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import IMAGE, tiny_model

deit = declare(
    "deit",
    title="DeiT, with and without distillation head",
    stream="image",
    model_types=("deit",),
    blocks="layers",
    prefix_tokens=lambda config: 2,
    tiny=tiny_model("DeiTForImageClassification", **IMAGE),
    relu=tiny_model("DeiTForImageClassification", **IMAGE, hidden_act="relu"),
    variants={"deit_teacher": tiny_model("DeiTForImageClassificationWithTeacher", **IMAGE)},
)

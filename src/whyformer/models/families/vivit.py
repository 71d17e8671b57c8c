"""ViViT (Arnab et al., 2021): a class token before tubes of frames x patches, all in one sequence.

The grid of the stream `video` has the rows of the first tubes' patches, then of the next ones.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model
from whyformer.models.families.videomae import VIDEO, video_grid

SIZES = {**{k: v for k, v in VIDEO.items() if k != "patch_size"}, "tubelet_size": [2, 4, 4]}

vivit = declare(
    "vivit",
    title="ViViT",
    stream="video",
    model_types=("vivit",),
    sources=(Source("video", "pixel_values", kind="video", grid=video_grid),),
    stacks=(Stack(("video",), "layers"),),
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("VivitForVideoClassification", **SIZES),
    relu=tiny_model("VivitForVideoClassification", **SIZES, hidden_act="relu"),
)

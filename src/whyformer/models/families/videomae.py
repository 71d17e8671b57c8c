"""VideoMAE (Tong et al., 2022): a vision transformer on tubes of two frames x one patch.

The grid of the stream `video` has the rows of the first tubes' patches, then of the next ones.
"""

from __future__ import annotations

from typing import Any

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import SIZES, tiny_model

VIDEO = {
    **SIZES,
    "image_size": 8,
    "patch_size": 4,
    "num_frames": 6,
    "num_labels": 3,
}


def video_grid(config: Any, shape: tuple[int, ...]) -> tuple[int, int]:
    """(tubes in time x rows, columns) of a video (batch, frames, channels, height, width)."""
    tube = config.tubelet_size
    frames, high, wide = (
        (tube, config.patch_size, config.patch_size) if isinstance(tube, int) else tube
    )
    return shape[1] // frames * (shape[3] // high), shape[4] // wide


videomae = declare(
    "videomae",
    title="VideoMAE",
    stream="video",
    model_types=("videomae",),
    sources=(Source("video", "pixel_values", kind="video", grid=video_grid),),
    stacks=(Stack(("video",), "encoder.layer"),),
    tiny=tiny_model("VideoMAEForVideoClassification", **VIDEO, tubelet_size=2),
    relu=tiny_model("VideoMAEForVideoClassification", **VIDEO, tubelet_size=2, hidden_act="relu"),
)

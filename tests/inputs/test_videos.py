"""Videos: their tokens are tubes of frames x patch, in order of time, rows and columns."""

from __future__ import annotations

import pytest
import torch

import whyformer as wf
from whyformer.errors import InputError
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs


@pytest.mark.parametrize("name", ["videomae", "vivit"])
def test_the_score_of_a_tube_is_that_of_its_own_pixels(name: str) -> None:
    """Only the pixels of tube 1 of 3, row 0, column 1 move; so does only that token's state."""
    builder = families[name].tiny
    assert builder is not None
    model = builder().double()
    video = tiny_inputs(model)["pixel_values"]
    moved = video.clone()
    moved[:, 2:4, :, 0:4, 4:8] += 1
    states = [
        wf.explain({"pixel_values": v}, model, target=1, keep=("states",)).streams["video"].states
        for v in (video, moved)
    ]
    assert states[0] is not None
    assert states[1] is not None
    changed = (states[0] - states[1]).abs().amax((0, 2)) > 1e-9
    a = wf.explain({"pixel_values": video}, model, target=1)
    assert a.streams["video"].grid == (6, 2)  # 3 tubes in time x 2 rows, 2 columns
    assert changed.unflatten(0, (3, 2, 2)).nonzero().tolist() == [[1, 0, 1]]


def test_occlusion_removes_the_pixels_of_one_tube() -> None:
    builder = families["videomae"].tiny
    assert builder is not None
    model = builder().double()
    video = tiny_inputs(model)["pixel_values"]
    a = wf.explain({"pixel_values": video}, model, method="occlusion", target=1)
    without = video.clone()
    without[:, 2:4, :, 0:4, 4:8] = 0
    with torch.no_grad():
        drop = (model(video).logits - model(without).logits)[:, 1]
    torch.testing.assert_close(a.scores.unflatten(1, (3, 2, 2))[:, 1, 0, 1], drop)


def test_an_image_is_no_video() -> None:
    builder = families["videomae"].tiny
    assert builder is not None
    with pytest.raises(InputError, match=r"rank 5 \(batch, frames, channels, height, width\)"):
        wf.explain({"pixel_values": torch.zeros(2, 8, 8)}, builder())

"""Videos at placeholders in a text: Qwen2-VL, Qwen2.5-VL and Qwen3-VL."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import whyformer as wf
from whyformer.errors import InputError, ModelError, OptionError
from whyformer.models.families.tiny import tiny_models

NAMES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"]
FRAMES, ROWS, COLUMNS = 2, 2, 3  # of tokens


@cache
def model_of(name: str) -> Any:
    return tiny_models()[name][1]().double()


def packed(name: str, frames: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random patches, and (frames, rows, columns) of patches."""
    vision = model_of(name).config.vision_config
    merge = vision.spatial_merge_size
    width = 3 * vision.patch_size**2 * vision.temporal_patch_size
    grid = (frames, ROWS * merge, COLUMNS * merge)
    generator = torch.Generator().manual_seed(seed)
    patches = torch.randn(frames * grid[1] * grid[2], width, generator=generator)
    return patches.double(), torch.tensor([grid])


def video_inputs(name: str, tokens: int = ROWS * COLUMNS, image: bool = False) -> dict[str, Tensor]:
    """A video, frame by frame between text, and perhaps an image before it."""
    config = model_of(name).config
    # Qwen3-VL has the time before each frame; the others read all frames in a row.
    between = [11] if name == "qwen3_vl" else []
    row = [4, 8]
    found: dict[str, Tensor] = {}
    if image:
        row += [config.image_token_id] * (ROWS * COLUMNS) + [6]
        found["pixel_values"], found["image_grid_thw"] = packed(name, 1, 1)
    row += ([config.video_token_id] * tokens + between) * FRAMES + [9, 7]
    found["pixel_values_videos"], found["video_grid_thw"] = packed(name, FRAMES, 0)
    ids = torch.tensor([row])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **found}


@pytest.mark.parametrize("name", NAMES)
def test_frames_stand_one_below_the_other_and_relevance_is_conserved(name: str) -> None:
    inputs, model = video_inputs(name), model_of(name)
    a = wf.explain(inputs, model, target=5, method="attn_lrp")
    video = a.streams["video"]
    assert video.grid == (FRAMES * ROWS, COLUMNS)
    assert video.image is not None
    assert (video.scores != 0).all()
    torch.testing.assert_close(a.conservation, torch.ones_like(a.output), rtol=0, atol=1e-6)
    # The tokens of the video are no tokens of the text.
    columns = inputs["input_ids"] == model.config.video_token_id
    assert torch.equal(a.streams["text"].mask, ~columns)


def test_each_frame_is_where_its_tokens_are() -> None:
    """Change the patches of the second frame: the states of its tokens change, no others."""
    name = "qwen2_vl"
    model, inputs = model_of(name), video_inputs(name)
    changed = {**inputs, "pixel_values_videos": inputs["pixel_values_videos"].clone()}
    changed["pixel_values_videos"][len(changed["pixel_values_videos"]) // 2 :] += 1
    first, second = (
        wf.explain(one, model, target=5, keep="states").streams["video"].states
        for one in (inputs, changed)
    )
    assert first is not None
    assert second is not None
    same = (first == second).all(-1)[0].reshape(FRAMES, ROWS * COLUMNS)
    assert same[0].all()
    assert not same[1].any()


def test_an_image_and_a_video_in_one_prompt() -> None:
    a = wf.explain(video_inputs("qwen2_vl", image=True), model_of("qwen2_vl"), target=5)
    assert {name: one.grid for name, one in a.streams.items()} == {
        "text": None,
        "image": (ROWS, COLUMNS),
        "video": (FRAMES * ROWS, COLUMNS),
    }
    torch.testing.assert_close(a.conservation, torch.ones_like(a.output), rtol=0, atol=1e-6)


def test_a_video_that_does_not_fit_its_placeholders_is_refused() -> None:
    with pytest.raises(InputError, match="placeholders"):
        wf.explain(video_inputs("qwen2_vl", tokens=5), model_of("qwen2_vl"), target=5)


def test_patches_of_videos_are_refused() -> None:
    model = model_of("qwen2_vl")
    with pytest.raises(OptionError, match="the inputs have no image"):
        wf.explain(video_inputs("qwen2_vl"), model, target=5, image_scale="patches")
    with pytest.raises(ModelError, match="ran 2 times for one sample"):
        wf.explain(video_inputs("qwen2_vl", image=True), model, target=5, image_scale="both")

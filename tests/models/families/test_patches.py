"""Relevance of images through their encoder: from soft tokens to patches."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.several import target_of
from whyformer.engine.blocks import find_blocks
from whyformer.engine.passes.tower import tower_relevance
from whyformer.engine.run import Run
from whyformer.engine.scope import borrow_model
from whyformer.engine.stacks import find_stacks
from whyformer.errors import ModelError, OptionError
from whyformer.inputs.prepare import prepare
from whyformer.models.families.image_items import unpack_patches
from whyformer.models.families.tiny import tiny_inputs, tiny_models

NAMES = [name for name, (known, _) in tiny_models().items() if any(s.tower for s in known.soft)]
ASKED = {"llava", "qwen2_vl", "paligemma", "idefics3", "idefics3_smolvlm", "internvl"}
GRIDS = {
    "blip_2": (3, 3),
    "blip_2_t5": (3, 3),
    "gemma3_vision": (4, 4),
    "idefics2": (3, 3),
    "idefics3": (4, 4),
    "idefics3_smolvlm": (4, 4),
    "instructblip": (3, 3),
    "instructblip_t5": (3, 3),
    "internvl": (4, 4),
    "llava": (3, 3),
    "llava_siglip": (3, 3),
    "mistral3": (4, 8),
    "paligemma": (3, 3),
    "qwen2_vl": (4, 6),
}
EXACT = {"rtol": 0, "atol": 1e-10}


@cache
def model_of(name: str) -> nn.Module:
    return tiny_models()[name][1]().double()


def inputs_of(name: str) -> dict[str, Tensor]:
    return tiny_inputs(model_of(name), (9, 7))


def explained(name: str, method: str = "attn_lrp", scale: str = "patches") -> wf.Attribution:
    return wf.explain(
        inputs_of(name), model_of(name), method=method, target=target_of(name), image_scale=scale
    )


def test_the_families_that_go_on_to_patches() -> None:
    assert GRIDS.keys() == set(NAMES)
    assert set(NAMES) > ASKED


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["libragrad", "attn_lrp"])
def test_relevance_is_conserved(name: str, method: str) -> None:
    a = explained(name, method)
    assert a.streams["image"].grid == GRIDS[name]
    torch.testing.assert_close(a.conservation, torch.ones_like(a.output), rtol=0, atol=1e-6)
    assert a.streams["image"].scores.abs().amax(1).min() > 0


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "blip_2"])
def test_both_scales_are_shown_and_counted_once(name: str) -> None:
    tokens, patches = explained(name, scale="tokens"), explained(name)
    both = explained(name, scale="both")
    assert [*both.streams] == ["text", "image", "image patches"]
    for stream, alone in (("text", tokens), ("image", tokens)):
        torch.testing.assert_close(both.streams[stream].scores, alone.streams[stream].scores)
    shown = both.streams["image patches"]
    torch.testing.assert_close(shown.scores, patches.streams["image"].scores, **EXACT)
    assert shown.name == "image patches"
    torch.testing.assert_close(both.sinks["shown twice"], -both.streams["image"].scores.sum(1))
    torch.testing.assert_close(both.conservation, torch.ones(2, dtype=torch.float64))


def run_of(name: str) -> Run:
    model, family = model_of(name), tiny_models()[name][0]
    batch = prepare(inputs_of(name), model, None, family)
    return Run(
        model, batch, find_stacks(model, batch.stream, family), None, family, image_scale="patches"
    )


@pytest.mark.parametrize("name", NAMES)
def test_without_rules_it_is_the_plain_gradient(name: str) -> None:
    """One sample, from its language model's states back to what enters the encoder."""
    whole = run_of(name)
    assert whole.batch.soft is not None
    run = Run(
        whole.module, whole.batch.take([1]), whole.stacks, None, whole.family, image_scale="patches"
    )
    soft, track = run.batch.soft, run.stacks.tracks["text"]
    assert soft is not None
    assert soft.patches is not None
    seen: dict[str, Tensor] = {}

    def leaf(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        name = next((k for k, v in kwargs.items() if isinstance(v, Tensor)), "")
        states = args[0] if args else kwargs[name]
        seen["leaf"] = states.detach().requires_grad_()
        return (
            ((seen["leaf"], *args[1:]), kwargs) if args else (args, kwargs | {name: seen["leaf"]})
        )

    def reach(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        seen["states"] = args[0] if args else kwargs["hidden_states"]

    first = find_blocks(run.module, soft.patches.blocks)[0]
    handles = [
        first.register_forward_pre_hook(leaf, with_kwargs=True),
        track.chain[0].register_forward_pre_hook(reach, with_kwargs=True),
    ]
    try:
        run.module(**run.batch.arguments)
    finally:
        for handle in handles:
            handle.remove()
    torch.manual_seed(0)
    slope = torch.randn_like(seen["states"])
    placed = torch.zeros(slope.shape[1], dtype=torch.bool)
    for stream in soft.streams:
        placed[stream.places[0][stream.places[0] >= 0]] = True
    value = (seen["states"] * slope * placed[None, :, None]).sum()
    (gradient,) = torch.autograd.grad(value, seen["leaf"])
    expected = (gradient * seen["leaf"]).detach().sum(-1).flatten()
    with borrow_model(run.module):
        found = tower_relevance(run, {}, {track.name: slope.detach()})
    assert found is not None
    # Some of these models narrow norms or rotary positions to float32, and no rule does.
    close = {"rtol": 0, "atol": 1e-3 * float(expected.abs().max())}
    for stream in soft.patches.streams:
        places = stream.places[0]
        shown = found.scores[stream.name][0]
        torch.testing.assert_close(shown[places >= 0], expected[places[places >= 0]], **close)
        assert not shown[places < 0].any()
    total = sum(one.sum() for one in found.scores.values()) + found.sinks["prefix"][0]
    torch.testing.assert_close(torch.as_tensor(total), expected.sum(), **close)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "qwen2_vl"])
def test_each_cell_is_the_patch_that_its_state_reads(name: str) -> None:
    """Change the pixels of one cell: one state that enters the encoder changes."""
    run = run_of(name)
    soft = run.batch.soft
    assert soft is not None
    assert soft.patches is not None
    (stream,) = soft.patches.streams
    assert stream.grid is not None
    pixels: Tensor = run.batch.arguments["pixel_values"]
    side = run.module.config.vision_config.patch_size
    side = side if isinstance(side, int) else side[0]
    first = find_blocks(run.module, soft.patches.blocks)[0]

    def entering(changed: Tensor) -> Tensor:
        """The states of the first sample, (tokens, hidden)."""
        seen: list[Tensor] = []
        handle = first.register_forward_pre_hook(
            lambda part, args, kwargs: seen.append((*args, *kwargs.values())[0]),
            with_kwargs=True,
        )
        arguments = {**run.batch.arguments, "pixel_values": changed}
        try:
            with torch.no_grad():
                run.module(**arguments)
        finally:
            handle.remove()
        return seen[0].flatten(0, -2)[: soft.patches.counts[0]]

    before = entering(pixels)
    for cell in (0, 1, stream.grid[1], stream.grid[0] * stream.grid[1] - 1):
        row, column = divmod(cell, stream.grid[1])
        if int(stream.places[0, cell]) < 0:
            continue
        changed = pixels.clone()
        area = changed[0, ..., row * side : (row + 1) * side, column * side : (column + 1) * side]
        area += 1
        moved = (entering(changed) != before).any(1).nonzero().flatten().tolist()
        assert moved == [int(stream.places[0, cell])]


def test_the_list_of_patches_goes_through_squares() -> None:
    run = run_of("qwen2_vl")
    soft = run.batch.soft
    assert soft is not None
    assert soft.patches is not None
    (stream,) = soft.patches.streams
    vision, patches = run.module.config.vision_config, run.batch.arguments["pixel_values"]
    grid = tuple(run.batch.arguments["image_grid_thw"][1].tolist())
    own = patches[soft.patches.counts[0] :]
    picture = unpack_patches(own, grid, vision.spatial_merge_size, vision)
    assert picture is not None
    side = vision.patch_size
    places = stream.places[1].reshape(stream.grid)
    for row in range(grid[1]):
        for column in range(grid[2]):
            part = picture[:, row * side : (row + 1) * side, column * side : (column + 1) * side]
            stored = own[places[row, column]].reshape(3, -1, side, side)[:, 0]
            torch.testing.assert_close(part, stored, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "idefics3", "mistral3"])
def test_a_batch_is_its_samples(name: str) -> None:
    a, run = explained(name, "libragrad"), run_of(name)
    for sample in range(2):
        batch = run.batch.take([sample])
        assert batch.mask is not None
        real = batch.mask[0]
        inputs = {
            key: value[:, real] if value.shape[:2] == batch.mask.shape else value
            for key, value in batch.arguments.items()
            if isinstance(value, Tensor)
        }
        alone = wf.explain(
            inputs, run.module, method="libragrad", target=target_of(name), image_scale="patches"
        )
        found = a[sample].streams["image"].scores
        torch.testing.assert_close(found, alone.streams["image"].scores, **EXACT)


def test_every_row_of_an_answer_goes_on_to_patches() -> None:
    model, answer = model_of("llava"), [7, 9, 11]
    inputs = {key: value[:1] for key, value in inputs_of("llava").items()}
    a = wf.explain(inputs, model, target=answer, image_scale="both")
    rows = a.maps["generated", "image patches"][0]
    assert rows.shape == (3, 9)
    ids = torch.cat([inputs["input_ids"], torch.tensor([answer[:2]])], 1)
    longer = {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    last = wf.explain(longer, model, target=answer[2], image_scale="patches")
    torch.testing.assert_close(rows[2], last.streams["image"].scores[0], **EXACT)
    torch.testing.assert_close(a.conservation, torch.ones(1, dtype=torch.float64))


def test_both_scales_in_files_and_views(tmp_path: Any) -> None:
    a = explained("qwen2_vl", scale="both")
    a.save(tmp_path / "why.safetensors")
    loaded = wf.load(tmp_path / "why.safetensors")
    assert [*loaded.streams] == ["text", "image", "image patches"]
    html = a[0].to_html()
    assert html is not None
    assert "image patches" in html
    assert "shown twice" in html
    a[0].to_png(tmp_path / "why.png")
    assert (tmp_path / "why.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("llava", {"image_scale": "pixels"}, r"image_scale='pixels' is unknown"),
        ("llava", {"image_scale": "both", "method": "gae"}, "'gae' stops at the tokens"),
        ("llava", {"image_scale": "both", "method": "blend"}, "'blend' stops at the tokens"),
        ("llava", {"image_scale": "both", "method": "occlusion"}, "'occlusion' stops"),
        ("qwen2_5_vl", {"image_scale": "patches"}, "no family declares the image encoder"),
        ("llama", {"image_scale": "patches"}, "no family declares the image encoder"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    name: str, settings: dict[str, Any], message: str
) -> None:
    model = tiny_models()[name][1]()
    with pytest.raises(OptionError, match=message):
        wf.explain(tiny_inputs(model), model, target=5, **settings)


def test_a_text_without_an_image_has_no_patches() -> None:
    model = model_of("llava")
    with pytest.raises(OptionError, match="the inputs have no image"):
        wf.explain({"input_ids": torch.tensor([[4, 8, 9]])}, model, target=5, image_scale="both")


def test_an_encoder_that_reads_other_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("llava")
    assert run.batch.soft is not None
    assert run.batch.soft.patches is not None
    monkeypatch.setitem(run.batch.soft.patches.__dict__, "counts", (12, 12))
    track = run.stacks.tracks["text"]
    width = run.batch.arguments["input_ids"].shape[1]
    with (
        borrow_model(run.module),
        pytest.raises(ModelError, match="10 states enter its image encoder, where 12 patches"),
    ):
        tower_relevance(run, {}, {track.name: torch.zeros(2, width, 32).double()})

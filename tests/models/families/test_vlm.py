"""Models that read images or sounds at placeholders: streams, grids, samples, answers, methods."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.several import only, target_of
from whyformer.errors import InputError
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs, tiny_models

VLM = [name for name, (known, _) in tiny_models().items() if known.soft]
WRITERS = [name for name in VLM if tiny_models()[name][0].generates_text]
GRIDS = {
    "florence2": {"image": (4, 4)},
    "gemma3_vision": {"image": (2, 2)},
    "glm4v": {"image": (2, 3)},
    "idefics3": {"image": (2, 2)},
    "idefics3_smolvlm": {"image": (2, 2)},
    "internvl": {"image": (2, 2)},
    "llava": {"image": (3, 3)},
    "llava_next": {"image": (3, 6), "image overview": (3, 3)},
    "llava_onevision": {"image": (3, 6), "image overview": (3, 3)},
    "llava_siglip": {"image": (3, 3)},
    "mistral3": {"image": (2, 4)},
    "paligemma": {"image": (3, 3)},
    "qwen2_5_vl": {"image": (2, 3)},
    "qwen2_vl": {"image": (2, 3)},
    "qwen3_vl": {"image": (2, 3)},
}
WITHOUT_GRID = {
    "blip_2",
    "blip_2_t5",
    "idefics2",
    "instructblip",
    "instructblip_t5",
    "kosmos_2",
    "qwen2_audio",
    "voxtral",
}
# Where the blocks of the tower are, to take its attention away.
TOWERS = {
    "gemma3_vision": "model.vision_tower.encoder.layers",
    "glm4v": "model.visual.blocks",
    "idefics3": "model.vision_model.encoder.layers",
    "internvl": "model.vision_tower.encoder.layer",
    "llava": "model.vision_tower.encoder.layers",
    "llava_next": "model.vision_tower.encoder.layers",
    "llava_onevision": "model.vision_tower.encoder.layers",
    "llava_siglip": "model.vision_tower.encoder.layers",
    "mistral3": "model.vision_tower.transformer.layers",
    "paligemma": "model.vision_tower.encoder.layers",
    "qwen2_5_vl": "model.visual.blocks",
    "qwen2_vl": "model.visual.blocks",
    "qwen3_vl": "model.visual.blocks",
}


@cache
def model_of(name: str) -> nn.Module:
    return tiny_models()[name][1](attn_implementation="eager").double()


def inputs_of(name: str, **options: Any) -> dict[str, Tensor]:
    return tiny_inputs(model_of(name), **options)


@cache
def explained(name: str, method: str) -> wf.Attribution:
    return wf.explain(inputs_of(name), model_of(name), method=method, target=target_of(name))


def test_every_family_is_looked_at() -> None:
    assert GRIDS.keys() | WITHOUT_GRID == set(VLM)


@pytest.mark.parametrize("name", VLM)
def test_streams_have_the_grid_of_the_largest_image(name: str) -> None:
    streams = dict(explained(name, "libragrad").streams)
    assert streams.pop("text").grid is None
    streams.pop("generated", None)
    if name in WITHOUT_GRID:
        ((only_name, stream),) = streams.items()
        assert only_name == ("audio" if name in ("qwen2_audio", "voxtral") else "image")
        assert stream.grid is None
        return
    assert {stream: one.grid for stream, one in streams.items()} == GRIDS[name]
    for one in streams.values():
        assert one.grid is not None
        assert one.image is not None
        assert one.scores.shape == (2, one.grid[0] * one.grid[1])


@pytest.mark.parametrize("name", VLM)
@pytest.mark.parametrize("method", ["libragrad", "attn_lrp"])
def test_relevance_is_conserved(name: str, method: str) -> None:
    a = explained(name, method)
    assert a.conservation is not None
    ones = torch.ones(2, dtype=torch.float64)
    torch.testing.assert_close(a.conservation, ones, rtol=0, atol=1e-6)
    placed = [s for stream, s in a.streams.items() if stream not in ("text", "generated")]
    assert all(bool((s.scores[s.mask] != 0).all()) for s in placed)
    assert all(bool((s.scores[~s.mask] == 0).all()) for s in a.streams.values())


@pytest.mark.parametrize("name", VLM)
def test_image_and_text_share_the_columns_of_the_ids(name: str) -> None:
    """Scores of the text and of its placeholders are those of the model's own states."""
    model, inputs = model_of(name), inputs_of(name)
    family = tiny_models()[name][0]
    a = explained(name, "gradient_x_input")
    (soft, *_) = family.soft
    columns = soft.columns(model.config, inputs)
    real = inputs["attention_mask"].bool()
    assert torch.equal(a.streams["text"].mask, real & ~columns)
    counts = [item.count for item in soft.items(model.config, inputs)]
    assert columns.sum(1).tolist() == counts


@pytest.mark.parametrize("name", TOWERS)
def test_each_cell_shows_the_pixels_that_its_token_reads(name: str) -> None:
    """Without attention in the tower, a soft token depends on the pixels of its cell alone."""
    model = tiny_models()[name][1](attn_implementation="eager").double()
    (soft, *_) = tiny_models()[name][0].soft
    inputs = tiny_inputs(model)

    def skip(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        entered = args[0] if args else kwargs["hidden_states"]
        return (entered, *output[1:]) if isinstance(output, tuple) else entered

    for block in model.get_submodule(TOWERS[name]):
        block.register_forward_hook(skip, with_kwargs=True)
    read: list[Tensor] = []

    def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
        read.append(kwargs["inputs_embeds"])

    model.get_decoder().register_forward_pre_hook(enter, with_kwargs=True)  # type: ignore[operator]
    pixels = inputs["pixel_values"].requires_grad_()
    model(**inputs)
    columns = soft.columns(model.config, inputs)
    items = soft.items(model.config, inputs)
    for sample, item in enumerate(items):
        places = columns[sample].nonzero().flatten()
        for panel in item.panels:
            assert panel.grid is not None
            assert panel.pixels is not None
            rows, width = panel.grid
            for cell in {0, panel.cells.numel() - 1, width - 1, (rows - 1) * width}:
                token = int(panel.cells.flatten()[cell])
                state = read[0][sample, places[token]]
                (slope,) = torch.autograd.grad(state.sum(), pixels, retain_graph=True)
                # An image of zeros would be padding.
                shown = soft.items(model.config, {**inputs, "pixel_values": slope + 1})
                mine = next(p for p in shown[sample].panels if p.name == panel.name)
                assert mine.pixels is not None
                height, side = (
                    mine.pixels.shape[1] // rows,
                    mine.pixels.shape[2] // width,
                )
                row, column = divmod(cell, width)
                inside = torch.zeros_like(mine.pixels, dtype=torch.bool)
                inside[
                    :,
                    row * height : (row + 1) * height,
                    column * side : (column + 1) * side,
                ] = True
                assert bool((mine.pixels[inside] != 1).any()), (sample, cell)
                assert bool((mine.pixels[~inside] == 1).all()), (sample, cell)


def gae_by_hand(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """GAE of one sample from the attentions that the model returns, (1, tokens)."""
    output = model(**inputs, output_attentions=True)
    value = output.logits[0, -1, 1]
    slopes = torch.autograd.grad(value, output.attentions)
    tokens = inputs["input_ids"].shape[1]
    relevancy = torch.eye(tokens, dtype=torch.float64)
    for attention, slope in zip(output.attentions, slopes, strict=True):
        mean = (attention[0] * slope[0]).clamp(min=0).mean(0)
        relevancy = relevancy + mean @ relevancy
    return relevancy[-1:].detach()


@pytest.mark.parametrize(
    "name",
    [
        "gemma3_vision",
        "idefics3",
        "internvl",
        "llava",
        "llava_next",
        "mistral3",
        "paligemma",
        "qwen2_vl",
        "qwen2_5_vl",
        "voxtral",
    ],
)
def test_gae_is_what_the_eager_attentions_give(name: str) -> None:
    model = model_of(name)
    (soft, *_) = tiny_models()[name][0].soft
    for sample in (0, 1):
        inputs = only(model, inputs_of(name), sample)
        a = wf.explain(inputs, model, method="gae", target=1)
        expected = gae_by_hand(model, inputs)
        columns = soft.columns(model.config, inputs)
        # Models cast to float32 inside their norms; under rules they stay in float64.
        close = {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(a.scores, expected.masked_fill(columns, 0), **close)
        (item,) = soft.items(model.config, inputs)
        for panel in item.panels:
            stream = a.streams[f"{soft.stream} {panel.name}".strip()]
            placed = expected[columns][panel.cells.flatten()]
            torch.testing.assert_close(stream.scores[0], placed, **close)


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("name", VLM)
def test_a_batch_is_its_samples(name: str, padding: str) -> None:
    model = model_of(name)
    inputs = inputs_of(name, padding=padding)
    together = wf.explain(inputs, model, method="libragrad", target=target_of(name))
    for sample in (0, 1):
        alone = wf.explain(
            only(model, inputs, sample), model, method="libragrad", target=target_of(name)
        )[0]
        assert alone.streams.keys() == together.streams.keys()
        for stream, one in alone.streams.items():
            mine = together[sample].streams[stream]
            assert one.grid == mine.grid
            assert torch.equal(one.mask, mine.mask)
            torch.testing.assert_close(one.scores, mine.scores, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in VLM if name not in WRITERS])
def test_an_answer_is_explained_by_text_and_image(name: str) -> None:
    """Each row is the token alone, after a text that goes on with the tokens before it."""
    model, inputs = model_of(name), inputs_of(name)
    answer = torch.tensor([[7, 8], [9, 7]])
    a = wf.explain(inputs, model, method="libragrad", target=answer)
    (soft, *_) = tiny_models()[name][0].soft
    placed = [stream for stream in a.streams if stream.startswith(soft.stream)]
    assert placed
    for sample in (0, 1):
        text = only(model, inputs, sample)
        first = wf.explain(text, model, method="libragrad", target=int(answer[sample, 0]))[0]
        for stream in placed:
            row = a[sample].maps["generated", stream][0, 0]
            torch.testing.assert_close(row, first.streams[stream].scores[0], rtol=1e-7, atol=1e-9)
        row = a[sample].maps["generated", "text"][0, 0]
        torch.testing.assert_close(row, first.scores[0], rtol=1e-7, atol=1e-9)
    total = sum(s.scores.sum(1) for s in a.streams.values()) + sum(a.sinks.values())
    torch.testing.assert_close(total, a.output, rtol=1e-6, atol=1e-8)


def two_images(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """Two texts: one with two images, one with the third."""
    model = model_of(name)
    (soft, *_) = tiny_models()[name][0].soft
    made = soft.tiny(model.config, 3, torch.Generator().manual_seed(3))  # type: ignore[misc]
    made = {k: v.double() if v.is_floating_point() else v for k, v in made.items()}
    counts = [item.count for item in soft.items(model.config, made)]
    token = getattr(model.config, soft.placeholder)
    runs = [[token] * count for count in counts]
    texts = [[5, *runs[0], 6, *runs[1], 7], [8, *runs[2], 9]]
    longest = max(map(len, texts))
    ids = [row + [0] * (longest - len(row)) for row in texts]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in texts]
    return model, {**made, "input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "mistral3", "llava_next", "paligemma"])
def test_several_images_are_several_streams(name: str) -> None:
    model, inputs = two_images(name)
    a = wf.explain(inputs, model, method="libragrad", target=1)
    assert {"text", "image", "image 2"} <= set(a.streams)
    assert not a.streams["image 2"].mask[1].any()
    (soft, *_) = tiny_models()[name][0].soft
    first, second, third = soft.items(model.config, inputs)
    torch.testing.assert_close(a.conservation, torch.ones(2).double(), rtol=0, atol=1e-6)
    # The second text alone has the third image.
    single = {}
    for key, value in inputs.items():
        if key in third.entries:
            single[key] = value[first.entries[key] + second.entries[key] :]
        else:
            single[key] = value[1:, : 2 + third.count]
    alone = wf.explain(single, model, method="libragrad", target=1)
    torch.testing.assert_close(
        a[1].streams["image"].scores, alone[0].streams["image"].scores, rtol=1e-8, atol=1e-10
    )


def test_taking_samples_takes_their_images() -> None:
    """Two images of sample 0 and one of sample 1: as many as samples is not one each."""
    from whyformer.inputs.prepare import prepare

    model, inputs = two_images("llava")
    batch = prepare(inputs, model, None, families["llava"])
    assert batch.soft is not None
    assert batch.soft.owners == {"pixel_values": (0, 0, 1)}
    assert batch.can_take_rows(model)
    taken = batch.take([1, 0, 1])
    pixels = inputs["pixel_values"]
    assert torch.equal(taken.arguments["pixel_values"], pixels[[2, 0, 1, 2]])
    assert taken.soft is not None
    assert taken.soft.owners == {"pixel_values": (0, 1, 1, 2)}
    assert torch.equal(taken.soft.columns, batch.soft.columns[[1, 0, 1]])
    model, inputs = two_images("qwen2_vl")
    batch = prepare(inputs, model, None, families["qwen2_vl"])
    taken = batch.take([1])
    assert torch.equal(taken.arguments["image_grid_thw"], inputs["image_grid_thw"][2:])
    patches = int(inputs["image_grid_thw"][2].prod())
    assert torch.equal(taken.arguments["pixel_values"], inputs["pixel_values"][-patches:])


def test_tiles_without_places_stand_one_below_the_other() -> None:
    """InternVL: two tiles in one run of placeholders are one image, two runs are two."""
    model = model_of("internvl")
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0)).double()
    tile = [model.config.image_token_id] * 4
    one = wf.explain(
        {"input_ids": torch.tensor([[5, *tile, *tile, 6]]), "pixel_values": pixels},
        model,
        method="libragrad",
        target=1,
    )
    assert set(one.streams) == {"text", "image"}
    assert one.streams["image"].grid == (4, 2)
    assert one.streams["image"].image is not None
    assert one.streams["image"].image.shape == (1, 3, 32, 16)
    two = wf.explain(
        {"input_ids": torch.tensor([[5, *tile, 6, *tile, 6]]), "pixel_values": pixels},
        model,
        method="libragrad",
        target=1,
    )
    assert {name: s.grid for name, s in two.streams.items() if name != "text"} == {
        "image": (2, 2),
        "image 2": (2, 2),
    }


def test_paligemma_reads_the_answer_from_left_to_right() -> None:
    """The text is read in both directions, also when the answer follows it."""
    model = model_of("paligemma")
    both_ways = inputs_of("paligemma")
    inputs = {name: value for name, value in both_ways.items() if name != "token_type_ids"}
    one = wf.explain(both_ways, model, method="libragrad", target=7)
    answer = wf.explain(both_ways, model, method="libragrad", target=torch.tensor([[7, 8]] * 2))
    causal = wf.explain(inputs, model, method="libragrad", target=7)
    row = answer.maps["generated", "image"][:, 0]
    torch.testing.assert_close(row, one.streams["image"].scores, rtol=1e-7, atol=1e-9)
    assert not torch.allclose(row, causal.streams["image"].scores, rtol=1e-2)


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "llava_next", "gemma3_vision", "idefics3"])
def test_images_that_do_not_fit_the_placeholders_are_refused(name: str) -> None:
    model, inputs = model_of(name), inputs_of(name)
    (soft, *_) = tiny_models()[name][0].soft
    token = getattr(model.config, soft.placeholder)
    without = {k: v for k, v in inputs.items() if k not in ("pixel_values", soft.kinds)}
    with pytest.raises(InputError, match=f"{token}.*no 'pixel_values'"):
        wf.explain(without, model, target=1)
    fewer = dict(inputs)
    fewer["input_ids"] = fewer["input_ids"].clone()
    fewer["input_ids"][1, 1] = 7  # one placeholder is missing
    counts = [item.count for item in soft.items(model.config, inputs)]
    expected = rf"{counts[0]} \+ {counts[1] - 1} = .* placeholders .* {counts[0]} \+ {counts[1]} ="
    with pytest.raises(InputError, match=expected):
        wf.explain(fewer, model, target=1)
    none = {**inputs, "input_ids": inputs["input_ids"].masked_fill(inputs["input_ids"] == token, 7)}
    with pytest.raises(InputError, match=r"0 \+ 0 = 0 placeholders"):
        wf.explain(none, model, target=1)


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "gemma3_vision"])
def test_a_prompt_of_text_alone_has_one_stream(name: str) -> None:
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8]])}
    a = wf.explain(inputs, model_of(name), method="libragrad", target=1)
    assert set(a.streams) == {"text"}
    assert a.trust.verdict in ("sound", "sound with notes")


@pytest.mark.parametrize("name", ["llava", "qwen2_vl"])
def test_removal_keeps_the_image_and_says_so(name: str) -> None:
    a = explained(name, "occlusion")
    assert set(a.streams) == {"text"}
    notes = [reason.text for reason in a.trust.reasons if reason.kind == "layers"]
    assert notes == [
        "Only tokens of the text were removed: 'image' stayed whole and has no scores."
    ]


def test_kept_maps_are_split_too() -> None:
    """The row of the last token is what GAE reads; its columns are split over the streams."""
    inputs, model = only(model_of("llava"), inputs_of("llava"), 0), model_of("llava")
    a = wf.explain(inputs, model, method="gae", target=1, keep="maps")
    columns = inputs["input_ids"][0] == model.config.image_token_id
    expected = gae_by_hand(model, inputs)[0]
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(a.maps["text", "image"][0, -1], expected[columns], **close)
    torch.testing.assert_close(
        a.maps["text", "text"][0, -1], expected.masked_fill(columns, 0), **close
    )
    assert not a.maps["text", "text"][0][columns].any()
    assert not a.maps["text", "image"][0][columns].any()
    assert a.maps["image", "image"].shape == (1, 9, 9)
    # A patch reads itself and those before it.
    assert bool((a.maps["image", "image"][0].diagonal() >= 1).all())
    assert not a.maps["image", "image"][0].triu(1).any()


def test_mllama_attends_to_a_mosaic_of_tiles() -> None:
    """Two tiles side by side, each with a class token first; attention in the tower is off."""
    model = tiny_models()["mllama"][1](attn_implementation="eager").double()
    inputs = tiny_inputs(model)
    a = wf.explain(inputs, model, method="libragrad", target=1)
    torch.testing.assert_close(a.conservation, torch.ones(2).double(), rtol=0, atol=1e-6)
    assert a.streams["image"].grid == (3, 6)
    assert [reason.kind for reason in a.trust.reasons if reason.level == "note"] == ["layers"]
    read: list[Tensor] = []

    def skip(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        return args[0] if args else kwargs["hidden_state"]

    def enter(module: nn.Module, args: Any) -> None:
        read.append(args[0].flatten(1, 3))

    for path in ("transformer", "global_transformer"):
        for block in model.get_submodule(f"model.vision_model.{path}.layers"):
            block.register_forward_hook(skip, with_kwargs=True)
    model.get_submodule("model.multi_modal_projector").register_forward_pre_hook(enter)
    pixels = inputs["pixel_values"].requires_grad_()
    model(**inputs)
    source = families["mllama"].sources[1]
    assert source.cells is not None
    cells, mask, _ = source.cells(model.config, inputs)
    assert mask.all()
    for row, column in ((0, 0), (1, 2), (2, 3), (0, 5)):
        state = read[0][1, cells[row, column]]
        (slope,) = torch.autograd.grad(state.sum(), pixels, retain_graph=True)
        _, _, shown = source.cells(model.config, {**inputs, "pixel_values": slope})
        there = (shown[1] != 0).any(0)
        inside = torch.zeros_like(there)
        inside[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = True
        assert bool(there[inside].any())
        assert not there[~inside].any()


def test_mllama_shows_tiles_of_other_shapes_one_below_the_other() -> None:
    model = tiny_models()["mllama"][1]().double()
    inputs = tiny_inputs(model)
    inputs["aspect_ratio_ids"][1] = 1  # one tile, the other is padding
    inputs["aspect_ratio_mask"][1, 0, 1] = 0
    tokens = inputs["input_ids"].shape[1]
    inputs["cross_attention_mask"] = (
        inputs["aspect_ratio_mask"].unsqueeze(1).repeat(1, tokens, 1, 1)
    )
    a = wf.explain(inputs, model, method="libragrad", target=1)
    assert a.streams["image"].grid == (6, 3)
    assert a[1].streams["image"].grid == (3, 3)
    torch.testing.assert_close(a.conservation, torch.ones(2).double(), rtol=0, atol=1e-6)
    alone = {name: value[1:] for name, value in inputs.items()}
    one = wf.explain(alone, model, method="libragrad", target=1)
    torch.testing.assert_close(
        one[0].streams["image"].scores, a[1].streams["image"].scores, rtol=1e-8, atol=1e-10
    )


def test_mllama_without_an_image_is_refused() -> None:
    inputs = {"input_ids": torch.tensor([[5, 6, 7]])}
    with pytest.raises(InputError, match="lack an image"):
        wf.explain(inputs, model_of("mllama"), target=1)


def test_results_are_saved_with_all_streams(tmp_path: Any) -> None:
    model, inputs = two_images("llava_next")
    a = wf.explain(inputs, model, method="libragrad", target=1)
    a.save(tmp_path / "why.safetensors")
    loaded = wf.load(tmp_path / "why.safetensors")
    assert loaded.streams.keys() == a.streams.keys()
    for name, stream in a.streams.items():
        assert torch.equal(loaded.streams[name].scores, stream.scores)
        assert loaded.streams[name].grid == stream.grid
    page = a[0].to_html()
    assert page is not None
    assert "image 2" in page

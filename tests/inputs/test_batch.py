"""`Batch.take`: samples of a batch, against batches that are made of those samples alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from whyformer.inputs.batch import Batch
from whyformer.inputs.prepare import prepare
from whyformer.models.families import family_of
from whyformer.models.families.tiny import tiny_inputs, tiny_models

LENGTHS = (4, 7, 2)


def make_batch(name: str, padding: str = "right", **more: Any) -> tuple[Batch, nn.Module]:
    """Three samples of a family, and its tiny model."""
    _, build = tiny_models()[name]
    module = build()
    inputs = {**tiny_inputs(module, LENGTHS, padding=padding), **more}
    return prepare(inputs, module, None, family_of(module)), module


@pytest.mark.parametrize("name", ["bert", "vit", "lxmert", "t5"])
@pytest.mark.parametrize("rows", [[1], [2, 0], [0, 0, 1, 2, 2], torch.tensor([2, 1])])
def test_every_stream_has_the_rows_asked_for(name: str, rows: Any) -> None:
    batch, _ = make_batch(name)
    taken, order = batch.take(rows), [int(row) for row in rows]
    assert taken.size == len(order)
    for before, after in zip(batch, taken, strict=True):
        assert after.content == tuple(before.content[row] for row in order)
        for attribute in ("mask", "image", "pixel_mask"):
            value = getattr(before, attribute)
            found = getattr(after, attribute)
            assert found is None if value is None else torch.equal(found, value[order])
        for attribute in ("tokens", "word_ids"):
            items = getattr(before, attribute)
            expected = None if items is None else tuple(items[row] for row in order)
            assert getattr(after, attribute) == expected
    for arguments, found in (
        (batch.arguments, taken.arguments),
        (batch.baseline_arguments, taken.baseline_arguments),
    ):
        for key, value in arguments.items():
            if isinstance(value, Tensor):
                assert torch.equal(found[key], value[order])
            else:
                assert found[key] == value


def test_columns_cut_the_tokens_of_the_main_stream() -> None:
    batch, module = make_batch("bert")
    assert batch.can_take_columns()
    assert batch.can_take_rows(module)
    taken = batch.take([2, 0], columns=4)
    assert taken.arguments["input_ids"].shape == (2, 4)
    assert taken.arguments["attention_mask"].shape == (2, 4)
    assert taken.baseline_arguments["input_ids"].shape == (2, 4)
    assert taken.mask is not None
    assert taken.mask.tolist() == [
        [True, True, False, False],
        [True] * 4,
    ]
    assert taken.tokens is not None
    assert [len(row) for row in taken.tokens] == [4, 4]


def test_the_padding_layout_follows() -> None:
    batch, _ = make_batch("bert", padding="left")
    assert batch.layout is not None
    assert batch.layout.shift == (3, 0, 5)
    layout = batch.take([2, 0, 2], columns=4).layout
    assert layout is not None
    assert layout.shift == (5, 3, 5)
    assert (layout.user_columns, layout.model_columns) == (7, 4)
    values = torch.arange(1, 13.0).reshape(3, 4)
    values[0, 2:] = values[2, 2:] = 0
    to_user = layout.to_user(values)
    assert to_user.shape == (3, 7)
    assert to_user[0].tolist() == [0, 0, 0, 0, 0, 1, 2]
    assert to_user[1].tolist() == [0, 0, 0, 5, 6, 7, 8]


def test_arguments_that_all_samples_share_stay_as_they_are() -> None:
    batch, module = make_batch("bert", position_ids=torch.arange(7).unsqueeze(0))
    shared = batch.arguments["position_ids"]
    assert len(shared) == 1
    assert batch.take([1, 2]).arguments["position_ids"] is shared
    assert not batch.can_take_rows(module)


def test_a_head_mask_is_not_per_sample_even_if_it_has_as_many_rows() -> None:
    batch, module = make_batch("bert")
    arguments = {**batch.arguments, "head_mask": torch.ones(3, 4)}
    masked = Batch(arguments, arguments, "input_ids", 3, "text", batch.content, batch.mask)
    assert torch.equal(masked.take([0]).arguments["head_mask"], arguments["head_mask"])
    assert not masked.can_take_rows(module)


def test_models_with_several_streams_keep_their_columns() -> None:
    batch, module = make_batch("lxmert")
    assert not batch.can_take_columns()
    assert batch.can_take_rows(module)


def test_as_many_tokens_as_samples_is_ambiguous() -> None:
    ids = torch.tensor([[5, 6, 7], [8, 9, 10], [11, 12, 13]])
    module = tiny_models()["bert"][1]()
    batch = prepare({"input_ids": ids}, module, None, family_of(module))
    assert not batch.can_take_rows(module)
    assert batch.take([0, 1]).can_take_rows(module)

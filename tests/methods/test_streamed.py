"""Streamed attention (maps recomputed row by row) gives the same scores as stored maps."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import whyformer as wf
from tests.several import refuses, target_of
from whyformer.engine import recording
from whyformer.engine.rules import attention_maps
from whyformer.engine.rules.operations import fused_attention as fused
from whyformer.errors import OptionError
from whyformer.models.families.tiny import DECODER, ENCODER, tiny_inputs, tiny_model, tiny_models

# Those that read attention maps: down the layers, or by rules.
READING = [name for name, known in wf.methods().items() if {"reduce", "rules"} & {*known.options}]
LENGTHS = (7, 5)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one to three queries, so that even tiny maps need several."""
    monkeypatch.setattr(fused, "ENTRIES", 2 * 4 * 7 * 3)
    monkeypatch.setattr(fused, "FEWEST", 1)


@cache
def model_of(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    return tiny_models()[name][1]().to(dtype)


def both(
    inputs: Any, model: nn.Module, method: str, **options: Any
) -> tuple[wf.Attribution, wf.Attribution]:
    streamed, held = (
        wf.explain(inputs, model, method=method, memory=memory, **options)
        for memory in ("streamed", "maps")
    )
    return streamed, held


def assert_close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    size = float(expected.abs().max()) or 1.0
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, one) for name in tiny_models() for one in READING if not refuses(name, one)],
)
def test_every_family_gets_the_same_scores(name: str, method: str) -> None:
    model = model_of(name)
    streamed, held = both(tiny_inputs(model, LENGTHS), model, method, target=target_of(name))
    for stream, expected in held.streams.items():
        # LRP divides by sums that nearly cancel.
        lrp = "rules" in wf.methods()[method].options
        assert_close(streamed.streams[stream].scores, expected.scores, 1e-7 if lrp else 1e-10)
    assert streamed.maps.keys() == held.maps.keys()
    for pair, expected_map in held.maps.items():
        assert_close(streamed.maps[pair], expected_map, 1e-7)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("gae", {"reduce": "column_sum"}),
        ("gae", {"normalize": True, "start_layer": 1}),
        ("gae", {"use_lrp": True}),
        ("gae", {"keep": "maps"}),
        ("rollout", {"residual": False}),
        ("rollout", {"normalize": False, "end_layer": 1}),
        ("rollout", {"residual": False, "normalize": False, "reduce": "column_sum"}),
        ("raw_attention", {"layer": 0}),
        ("grad_cam", {"weights": "row"}),
        ("grad_cam", {"weights": "map", "keep": "maps"}),
        ("transformer_attribution", {"signed": True, "rules": "orig"}),
        ("partial_lrp", {"gradient": True, "rules": "ours"}),
    ],
)
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_options_too(name: str, method: str, options: dict[str, Any]) -> None:
    model = model_of(name)
    streamed, held = both(tiny_inputs(model, LENGTHS), model, method, target=1, **options)
    assert_close(streamed.scores, held.scores, 1e-8)
    for pair, expected in held.maps.items():
        assert_close(streamed.maps[pair], expected, 1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_single_and_half_precision(dtype: torch.dtype) -> None:
    model = model_of("bert", dtype)
    for method in ("gae", "rollout", "raw_attention", "grad_cam"):
        streamed, held = both(tiny_inputs(model, LENGTHS), model, method, target=1)
        assert streamed.scores.dtype == torch.float32
        assert_close(streamed.scores, held.scores, 1e-5 if dtype == torch.float32 else 0.05)


@pytest.mark.parametrize("window", [2, 3])
def test_sliding_windows_leave_out_keys(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    build = tiny_model("MistralForCausalLM", **DECODER, sliding_window=window)
    model = build().double()
    widths: list[int] = []
    block = fused._block

    def noting(*args: Any) -> fused.Block:
        found = block(*args)
        widths.append(found.attention.shape[-1])
        return found

    monkeypatch.setattr(fused, "_block", noting)
    inputs = tiny_inputs(model, (30,))
    streamed, held = both(inputs, model, "gae", target=1)
    assert_close(streamed.scores, held.scores, 1e-10)
    assert 0 < max(widths) < 30


def test_a_query_without_visible_keys() -> None:
    query, key, value = (torch.randn(2, 3, 5, 4).double() for _ in range(3))
    mask = torch.rand(2, 1, 5, 5) > 0.5
    mask[0, 0, 2] = False
    call = fused.FusedCall(query, key, value, mask)
    whole, _ = fused.attention_weights(call)
    found = torch.zeros_like(whole)
    for block in fused.blocks(call):
        found[..., block.queries, block.keys] = block.attention
    torch.testing.assert_close(found, whole)


def test_only_the_deciding_row_of_the_top_layer_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    block = fused._block

    def noting(call: fused.FusedCall, queries: Any, places: Tensor) -> fused.Block:
        asked.append(len(places))
        return block(call, queries, places)

    monkeypatch.setattr(fused, "_block", noting)
    monkeypatch.setattr(fused, "ENTRIES", 2**20)
    model = model_of("bert")
    wf.explain(tiny_inputs(model, (7,)), model, method="gae", target=1, memory="streamed")
    assert asked == [1, 7]


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that an operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                self.entries = max(self.entries, tensor.numel())
        return made


@pytest.mark.parametrize(
    "method",
    ["gae", "rollout", "raw_attention", "grad_cam", "transformer_attribution", "partial_lrp"],
)
def test_nothing_as_large_as_a_map_is_ever_made(method: str) -> None:
    tokens = 400
    model = tiny_model(
        "BertForSequenceClassification", **{**ENCODER, "max_position_embeddings": tokens}
    )()
    inputs = {"input_ids": torch.randint(5, 60, (1, tokens))}
    largest = {}
    for memory in ("streamed", "maps"):
        with LargestTensor() as noted:
            wf.explain(inputs, model, method=method, target=1, memory=memory)
        largest[memory] = noted.entries
    assert largest["maps"] >= 4 * tokens**2
    assert largest["streamed"] <= 2 * 48 * tokens  # the widest layer's states


def test_large_maps_are_streamed_by_default(monkeypatch: pytest.MonkeyPatch) -> None:

    model = model_of("bert")
    inputs = tiny_inputs(model, LENGTHS)
    monkeypatch.setattr(recording, "LARGEST_HELD", 10)
    monkeypatch.setattr(attention_maps, "attention_weights", None)  # no whole map is computed
    found = wf.explain(inputs, model, method="gae", target=1)
    monkeypatch.undo()
    held = wf.explain(inputs, model, method="gae", target=1, memory="maps")
    assert_close(found.scores, held.scores, 1e-10)


def test_what_cannot_be_streamed_is_refused() -> None:
    model = model_of("bert")
    inputs = tiny_inputs(model, LENGTHS)
    known = r"memory='disk' is unknown\. Use 'maps', 'streamed' or 'checkpoint'"
    with pytest.raises(OptionError, match=known):
        wf.explain(inputs, model, method="gae", memory="disk")
    with pytest.raises(OptionError, match=r"asks for them\. Leave out memory= or keep="):
        wf.explain(inputs, model, method="gae", memory="streamed", keep="attention")

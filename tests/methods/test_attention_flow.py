"""Attention flow between streams and in padded batches against networkx, edge by edge."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import networkx
import pytest
import torch
from torch import Tensor

import whyformer as wf
from tests.several import target_of
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs


def flows_of(
    layers: Sequence[Any], sample: int, source: tuple[str, int], masks: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Maximum flow from a token at the top to each real token at the bottom, over their sum.

    A node is a stream, how often its tokens were renewed, and a token.
    """
    graph, age = networkx.DiGraph(), dict.fromkeys(masks, 0)
    before = dict(age)
    for layer in layers:
        before = before if layer.together else dict(age)
        asking, answering = layer.asking, layer.answering
        age[asking] += 1
        mixing = layer.attention[sample].mean(0).double()
        rows, columns = (masks[name].nonzero().flatten().tolist() for name in (asking, answering))
        for i in rows:
            share = 1 / (1 + mixing[i, columns].sum().item())
            new = (asking, age[asking], i)
            graph.add_edge(new, (asking, before[asking], i), capacity=share)
            for j in columns:
                old = (answering, before[answering], j)
                present = graph.get_edge_data(new, old, {"capacity": 0})["capacity"]
                graph.add_edge(new, old, capacity=present + mixing[i, j].item() * share)
    start = (source[0], age[source[0]], source[1])
    found = {}
    for name, mask in masks.items():
        found[name] = torch.zeros(len(mask), dtype=torch.float64)
        for j in mask.nonzero().flatten().tolist():
            if (name, 0, j) in graph:
                found[name][j] = networkx.maximum_flow_value(graph, start, (name, 0, j))
    total = sum(flow.sum() for flow in found.values())
    return {name: flow / total for name, flow in found.items()}


@pytest.mark.parametrize("name", ["lxmert", "t5", "detr"])
def test_between_streams(name: str) -> None:
    model = families[name].tiny().double()
    inputs = tiny_inputs(model, (4,))
    a = wf.explain(
        inputs, model, method="attention_flow", target=target_of(name), keep=("maps", "attention")
    )
    asking = next(pair[0] for pair in a.maps if pair[0] != pair[1])
    masks = {
        name: torch.ones(found.shape[2], dtype=torch.bool)
        for (one, name), found in a.maps.items()
        if one == asking
    }
    for token in (0, a.maps[asking, asking].shape[1] - 1):  # networkx takes a second for each
        expected = flows_of(a.layers, 0, (asking, token), masks)
        for other, flow in expected.items():
            torch.testing.assert_close(a.maps[asking, other][0, token], flow, rtol=0, atol=1e-11)


def test_a_padded_batch() -> None:
    model = families["bert"].tiny().double()
    inputs = tiny_inputs(model, (6, 1, 4))
    a = wf.explain(inputs, model, method="attention_flow", keep=("maps", "attention"))
    for i, mask in enumerate(inputs["attention_mask"].bool()):
        for token in mask.nonzero().flatten().tolist():
            expected = flows_of(a.layers, i, ("text", token), {"text": mask})["text"]
            torch.testing.assert_close(
                a.maps["text", "text"][i, token], expected, atol=1e-11, rtol=0
            )


def test_the_number_of_threads_changes_nothing() -> None:
    model = families["bert"].tiny().double()
    inputs, before = tiny_inputs(model, (6, 5, 4, 3)), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(wf.explain(inputs, model, method="attention_flow").scores)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-14)


def test_igraph_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    model = families["bert"].tiny()
    a = wf.explain(tiny_inputs(model, (5,)), model, method="attention_flow")
    torch.testing.assert_close(a.scores.sum().item(), 1.0)

"""Products of backward passes: by oneDNN where the processor prefers it, as by torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer as wf
from whyformer.engine.interception import Interception
from whyformer.engine.rules.detach.tables import detach_table
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import matrix_product
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.matrix_product import multiply, prefers_onednn

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this build of torch has no oneDNN"
)
RULES = detach_table(attention="detach", norm="detach", activation="identity")


@pytest.fixture
def onednn(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """oneDNN is preferred, whatever the processor; the results of its products so far."""
    results: list[Tensor] = []
    kernel = torch.ops.mkldnn._linear_pointwise

    def count(*args: Any) -> Tensor:
        results.append(kernel(*args))
        return results[-1]

    monkeypatch.setattr(matrix_product, "_is_faster_here", lambda: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", count)
    return results


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


LAYOUTS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "rows": lambda: (normal(12, 5), normal(5, 7)),
    "batch_of_rows": lambda: (normal(3, 4, 5), normal(5, 7)),
    "transposed_matrix": lambda: (normal(12, 5), normal(7, 5).t()),
    "parameter": lambda: (normal(12, 5), nn.Parameter(normal(5, 7), requires_grad=False)),
    "strided_rows": lambda: (normal(5, 12).t(), normal(5, 7)),
    "expanded_rows": lambda: (normal(1, 5).expand(12, 5), normal(5, 7)),
    "one_column": lambda: (normal(12, 5), normal(5, 1)),
    "one_inner": lambda: (normal(12, 1), normal(1, 7)),
    "many": lambda: (normal(300, 770), normal(770, 130)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_product_by_onednn_is_the_product(onednn: list[Tensor], layout: str) -> None:
    rows, matrix = LAYOUTS[layout]()
    found = multiply(rows, matrix)
    assert len(onednn) == 1
    exact = rows.double() @ matrix.double()
    terms = rows.double().abs() @ matrix.double().abs()  # what rounding is relative to
    assert ((found - exact).abs() <= 1e-6 * terms).all()


OTHERS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "few_rows": lambda: (normal(7, 5), normal(5, 7)),
    "one_vector": lambda: (normal(5), normal(5, 7)),
    "no_rows": lambda: (normal(0, 5), normal(5, 7)),
    "nothing_inside": lambda: (normal(12, 0), normal(0, 7)),
    "float64": lambda: (normal(12, 5).double(), normal(5, 7).double()),
    "bfloat16": lambda: (normal(12, 5).bfloat16(), normal(5, 7).bfloat16()),
    "columns_of_a_larger_matrix": lambda: (normal(12, 5), normal(5, 14)[:, ::2]),
    "batch_of_matrices": lambda: (normal(3, 12, 5), normal(3, 5, 7)),
}


@pytest.mark.parametrize("layout", OTHERS)
def test_everything_else_is_multiplied_as_usual(onednn: list[Tensor], layout: str) -> None:
    rows, matrix = OTHERS[layout]()
    assert torch.equal(multiply(rows, matrix), rows @ matrix)
    assert not onednn


def test_a_user_who_switched_onednn_off_gets_none(onednn: list[Tensor]) -> None:
    assert prefers_onednn(normal(12, 5), normal(5, 7))
    torch._C._set_mkldnn_enabled(False)
    try:
        assert not prefers_onednn(normal(12, 5), normal(5, 7))
    finally:
        torch._C._set_mkldnn_enabled(True)


LAYERS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "linear_without_bias": lambda x, w, b: F.linear(x, w),
    "linear_by_keyword": lambda x, w, b: F.linear(input=x, weight=w, bias=b),
    "addmm": lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w.t()).view(3, 4, -1),
    "addmm_of_its_own_layout": lambda x, w, b: torch.addmm(
        b, x.flatten(0, 1), w.t().contiguous()
    ).view(3, 4, -1),
    "written_into": lambda x, w, b: F.linear(x, w, b).add_(1.0),
    "part_written_into": lambda x, w, b: write_zeros(F.linear(x, w, b)),
}


def write_zeros(x: Tensor) -> Tensor:
    x[:, 0] = 0.0
    return x


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_the_models_own_and_its_backward_is_torchs(
    onednn: list[Tensor], layer: str
) -> None:
    x, w, b, slope = normal(3, 4, 16), normal(8, 16), normal(8), normal(3, 4, 8)
    plain = x.clone().requires_grad_()
    expected = LAYERS[layer](plain * 1, w, b)
    expected.backward(slope)

    leaf = tags.add_tag(x.clone().requires_grad_(), tags.LEAF)
    ledger = Ledger(3)
    with Interception(RULES, ledger):
        output = LAYERS[layer](leaf * 1, w, b)
    assert torch.equal(output, expected)  # to the last bit
    (gradient,) = torch.autograd.grad(output, leaf, slope)
    assert len(onednn) == 1
    torch.testing.assert_close(gradient, plain.grad)
    total = (x * gradient).sum((1, 2)) + sum(ledger.sinks.values())
    torch.testing.assert_close(total, (output.detach() * slope).sum((1, 2)))


def test_tracked_weights_take_the_usual_way(onednn: list[Tensor]) -> None:
    x = tags.add_tag(normal(12, 16).requires_grad_(), tags.LEAF)
    with Interception(RULES, Ledger(12)):
        F.linear(x, x[:8] * 2).sum().backward()
    assert not onednn
    assert x.grad is not None


@pytest.mark.parametrize("method", ["libragrad", "gae", "transformer_attribution", "blend"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "vit"])
def test_scores_are_those_of_float64(onednn: list[Tensor], family: str, method: str) -> None:
    model = wf.families()[family].tiny()
    pixels = {"pixel_values": torch.rand(1, 3, 12, 12)}
    ids = {"input_ids": torch.arange(3, 19).unsqueeze(0)}
    inputs = pixels if family == "vit" else ids
    found = wf.explain(inputs, model, method=method, target=1)
    assert onednn
    twin = wf.explain(inputs, model.double(), method=method, target=1)
    scale = twin.scores.abs().max()
    assert (found.scores - twin.scores).abs().max() <= 2e-4 * scale

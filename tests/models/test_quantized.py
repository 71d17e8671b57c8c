"""Quantised weights: torchao's are read as floats, opaque layers are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.torchao_process import needs_torchao, run_with_torchao
from whyformer.errors import ModelError
from whyformer.models.families.tiny import tiny_inputs, tiny_models
from whyformer.models.weights import check_weights


class Halves(Tensor):
    """A weight as torchao makes them: integers that count halves, with the look of floats."""

    __module__ = "torchao.quantization"
    act_quant_kwargs: Any = None
    integers: Tensor

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.dequantize:
            return args[0].integers.double() / 2
        if func is Tensor.detach:
            return args[0]
        if func is torch.nn.functional.linear:  # as the model runs without whyformer
            return func(args[0], args[1].dequantize(), *args[2:])
        return super().__torch_function__(func, types, args, kwargs or {})


def quantise(layer: nn.Linear) -> Tensor:
    """Replace the weight of a layer; return the floats that the new weight stands for."""
    integers = (layer.weight.detach() * 2).round().to(torch.int8)
    weight = torch.zeros_like(layer.weight).as_subclass(
        Halves
    )  # the floats that it holds are no use
    weight.integers = integers
    del layer.weight
    layer.weight = weight  # type: ignore[assignment]
    return integers.double() / 2


def bert() -> Any:
    return tiny_models()["bert"][1]().double()


@pytest.mark.parametrize("method", ["libragrad", "gae", "transformer_attribution", "full_lrp"])
def test_a_quantised_weight_is_read_as_floats(method: str) -> None:
    model, plain = bert(), bert()
    for i in range(2):
        floats = quantise(model.bert.encoder.layer[i].intermediate.dense)
        plain.bert.encoder.layer[i].intermediate.dense.weight.data = floats
    inputs = tiny_inputs(plain)
    found = wf.explain(inputs, model, method=method, target=1)
    assert torch.equal(found.scores, wf.explain(inputs, plain, method=method, target=1).scores)


def test_quantised_weights_are_checked_too() -> None:
    model = bert()
    layer = model.bert.encoder.layer[0].intermediate.dense
    quantise(layer)
    layer.register_buffer("held", layer.weight)
    check_weights(model)
    layer.weight.integers = layer.weight.integers.double()
    layer.weight.integers[0, 0] = torch.nan
    with pytest.raises(ModelError, match=r"NaN .*intermediate\.dense\.held"):
        check_weights(model, again=True)


def test_rounded_activations_are_refused() -> None:
    model = bert()
    layer = model.bert.encoder.layer[0].intermediate.dense
    quantise(layer)
    layer.weight.act_quant_kwargs = object()
    with pytest.raises(ModelError, match="Halves rounds activations"):
        wf.explain(tiny_inputs(bert()), model)


def test_opaque_layers_are_refused_by_name() -> None:
    linear = type("Linear8bitLt", (nn.Linear,), {"__module__": "bitsandbytes.nn.modules"})
    model = bert()
    dense = model.bert.encoder.layer[0].intermediate.dense
    dense.__class__ = linear
    inputs = tiny_inputs(model)
    with pytest.raises(ModelError, match=r"Linear8bitLt \(bitsandbytes\)"):
        wf.explain(inputs, model, method="gae")
    assert wf.explain(inputs, model, method="occlusion").scores.isfinite().all()


TORCHAO = """
import torch
import whyformer as wf
from scipy.stats import spearmanr
from torchao import quantization as q
from whyformer.models.families.tiny import tiny_inputs, tiny_models

found = {}
int4 = q.IntxWeightOnlyConfig(weight_dtype=torch.int4)
configs = {"int8": q.Int8WeightOnlyConfig(), "int4": int4}
for name, config in configs.items():
    build = lambda: tiny_models()["bert"][1](hidden_size=64, intermediate_size=64)
    model, plain = build(), build().double()
    q.quantize_(model, config)
    for path, weight in model.named_parameters():
        floats = weight.dequantize() if "torchao" in type(weight).__module__ else weight
        plain.get_parameter(path).data.copy_(floats.detach())
    for method in wf.methods():
        scores = [
            wf.explain(tiny_inputs(plain), one, method=method, target=1).scores
            for one in (model, plain)
        ]
        found[f"{name} {method}"] = min(spearmanr(*rows)[0] for rows in zip(*scores))
"""


@pytest.mark.slow
@needs_torchao
def test_torchao_weights_rank_as_float64() -> None:
    found = run_with_torchao(TORCHAO)
    assert len(found) == 2 * len(wf.methods())
    assert {name: rank for name, rank in found.items() if rank < 0.99} == {}

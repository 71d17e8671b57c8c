"""An explanation leaves no tensors in memory: no graph holds itself alive."""

from __future__ import annotations

import gc
import warnings

import pytest
import torch

import whyformer as wf
from tests.several import target_of
from whyformer.models.families.tiny import tiny_inputs, tiny_models

# One of each way to attend and to read: fused, einsum, pixels, two streams, encoder and decoder.
NAMES = ["bert", "vit", "llama", "deberta_v2", "beit", "lxmert", "detr", "t5", "clip"]
QUICK = {"bert", "lxmert", "vit"}


def alive() -> int:
    """The number of tensors that the garbage collector knows."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # looking at every object wakes up deprecated ones
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


@pytest.mark.parametrize("memory", ["maps", pytest.param("streamed", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
)
@pytest.mark.slow
def test_nothing_is_left_behind(name: str, memory: str) -> None:
    model = tiny_models()[name][1]()
    inputs = tiny_inputs(model, (5, 4))

    def explained() -> None:
        for method in wf.methods():
            options = {"steps": 2} if method == "integrated_gradients" else {}
            settings = {"method": method, "target": target_of(name), "memory": memory}
            wf.explain(inputs, model, **settings, **options)

    explained()
    explained()  # what is kept between calls is there now
    before = alive()
    explained()
    assert alive() == before

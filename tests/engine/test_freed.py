"""The tensors of an explanation are freed when it ends, and not when the collector runs."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import whyformer as wf
from tests.untouched import used_model
from whyformer.models.families.tiny import tiny_inputs
from whyformer.models.load import Loaded, load_model

pytestmark = pytest.mark.slow  # the collector looks at everything that pytest holds

METHODS = [name for name, method in wf.methods().items() if method.in_all]
TARGETS = {"bert": 0, "vit": 0, "llama": wf.token(-1), "detr": wf.query(0, 0), "bart": wf.token(-1)}
CHAT = [{"role": "user", "content": "Anna put the red ball in the attic. Where is the red ball?"}]


# Modules hold each other, so a model itself waits for the collector: each is made once.
@functools.cache
def model_of(name: str) -> nn.Module:
    return used_model(name)


@functools.cache
def bundled(name: str) -> Loaded:
    return load_model(name)


def explain(name: str, method: str, **more: Any) -> None:
    model = model_of(name)
    wf.explain(tiny_inputs(model), model, method=method, target=TARGETS[name], **more)


OTHERS: dict[str, Callable[[], Any]] = {
    "an image": lambda: explain("vit", "blend"),
    "a decoder": lambda: explain("llama", "attn_lrp"),
    "an object": lambda: explain("detr", "gae"),
    "blocks run again": lambda: explain("bert", "gae", memory="checkpoint"),
    "streamed": lambda: explain("bert", "gae", memory="streamed"),
    "nodes": lambda: explain("bert", "libragrad", keep="nodes"),
    "kept maps": lambda: explain("bert", "transformer_attribution", keep=["relevance", "gradient"]),
    "two streams": lambda: explain("bart", "transformer_attribution"),
    "an answer": lambda: wf.explain(CHAT, bundled("reader")),
    "an answer by maps": lambda: wf.explain(CHAT, bundled("reader"), method="gae"),
    "methods": lambda: wf.compare("a film", bundled("sst2"), methods=["libragrad", "full_lrp"]),
}


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Keep what the collector finds, instead of freeing it whenever it likes to."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def waiting_tensors(work: Callable[[], Any]) -> list[torch.Tensor]:
    """The tensors that the second call of `work` leaves to the collector.

    What the first call makes once, such as caches, does not count.
    """
    for _ in range(2):
        gc.collect()
        gc.garbage.clear()
        work()
    gc.collect()
    return [one for one in gc.garbage if isinstance(one, torch.Tensor)]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.filterwarnings("ignore::whyformer.errors.TrustWarning")
@pytest.mark.parametrize("method", METHODS)
def test_a_method_leaves_no_tensor_to_the_collector(method: str) -> None:
    assert not waiting_tensors(lambda: explain("bert", method))


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("name", OTHERS)
def test_a_call_leaves_no_tensor_to_the_collector(name: str) -> None:
    assert not waiting_tensors(OTHERS[name])

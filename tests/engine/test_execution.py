"""Models as they run in practice: checkpoints, autocast, compiled code, forks, hooks of users.

Each of them gives the scores of the plain model, and comes back as it was found.
"""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import checkpoint as torch_checkpoint
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import whyformer as wf
from whyformer.engine.scope import borrow_model
from whyformer.models.families.tiny import tiny_inputs, tiny_models

# One of each kind of rules.
METHODS = ("libragrad", "gae", "transformer_attribution", "attn_lrp", "occlusion")


def bert() -> Any:
    return tiny_models()["bert"][1]().double()


def scores_of(model: Any, method: str) -> Tensor:
    plain = bert()
    return wf.explain(tiny_inputs(plain), model, method=method, target=1).scores


@pytest.fixture(scope="module")
def expected() -> dict[str, Tensor]:
    return {method: scores_of(bert(), method) for method in METHODS}


class Around(nn.Module):
    """A block that runs another one by a function."""

    def __init__(self, block: nn.Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self.block = block
        self.run = run

    def forward(self, states: Tensor, *args: Any, **kwargs: Any) -> Any:
        return self.run(lambda x: self.block(x, *args, **kwargs), states)


def wrap_blocks(model: Any, run: Callable[..., Any]) -> Any:
    layers = model.bert.encoder.layer
    for i, layer in enumerate(layers):
        layers[i] = Around(layer, run)
    return model


# -- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_in_a_forward(
    reentrant: bool, method: str, expected: dict[str, Tensor]
) -> None:
    model = wrap_blocks(bert(), lambda f, x: checkpoint(f, x, use_reentrant=reentrant))
    assert torch.equal(scores_of(model, method), expected[method])


@pytest.mark.parametrize("method", METHODS)
def test_sequential_checkpoints(method: str, expected: dict[str, Tensor]) -> None:
    model = wrap_blocks(
        bert(), lambda f, x: checkpoint_sequential([f, lambda y: y], 2, x, use_reentrant=False)
    )
    assert torch.equal(scores_of(model, method), expected[method])


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_of_transformers(reentrant: bool, expected: dict[str, Tensor]) -> None:
    model = bert().train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    assert torch.equal(scores_of(model, "libragrad"), expected["libragrad"])
    assert model.is_gradient_checkpointing
    assert model.training


def test_the_context_of_a_checkpoint_is_entered() -> None:
    entered = []

    @contextmanager
    def note() -> Iterator[None]:
        entered.append(1)
        yield

    def run(function: Any, x: Tensor) -> Any:
        return checkpoint(function, x, use_reentrant=False, context_fn=lambda: (note(), note()))

    scores_of(wrap_blocks(bert(), run), "libragrad")
    assert len(entered) == 4  # once per block, and again in the plain pass that is compared


def test_checkpoints_are_as_before_afterwards() -> None:
    """Also in another thread meanwhile: a training run keeps its checkpoints."""
    names = ("CheckpointFunction", "_checkpoint_without_reentrant_generator")
    before = [getattr(torch_checkpoint, name) for name in names]
    calls: list[list[int]] = []

    def train() -> None:
        for reentrant in (True, False):
            runs: list[int] = []
            x = torch.ones(2, requires_grad=True)

            def double(value: Tensor, runs: list[int] = runs) -> Tensor:
                runs.append(1)
                return (value * 2).sin()

            checkpoint(double, x, use_reentrant=reentrant).sum().backward()
            calls.append(runs)

    with borrow_model(bert()):
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert [len(runs) for runs in calls] == [2, 2]  # forward, and again in the backward
    assert [getattr(torch_checkpoint, name) for name in names] == before


def test_other_hooks_on_saved_tensors_are_refused() -> None:
    def run(function: Any, x: Tensor) -> Any:
        with torch.autograd.graph.save_on_cpu():
            return function(x)

    with pytest.raises(wf.errors.ModelError, match="cannot be explained"):
        scores_of(wrap_blocks(bert(), run), "libragrad")


# -- autocast -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_around_the_call_is_ignored(dtype: torch.dtype, method: str) -> None:
    model = bert().float()
    wanted = scores_of(model, method)
    with torch.autocast("cpu", dtype=dtype):
        assert torch.equal(scores_of(model, method), wanted)
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("method", [m for m in METHODS if m != "occlusion"])
def test_autocast_in_a_forward_is_ignored(method: str) -> None:
    def run(function: Any, x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function(x)

    wanted = scores_of(bert().float(), method)
    assert torch.equal(scores_of(wrap_blocks(bert().float(), run), method), wanted)
    assert not torch.is_autocast_enabled("cpu")


def test_a_note_says_that_autocast_was_ignored() -> None:
    model = bert()
    with torch.autocast("cpu"), borrow_model(model) as execution:
        assert not torch.is_autocast_enabled("cpu")
    (reason,) = execution.reasons
    assert (reason.kind, reason.level, reason.culprits) == ("precision", "note", ("cpu",))
    with borrow_model(model) as execution:
        pass
    assert execution.reasons == ()


# -- compiled code --------------------------------------------------------------------------------


def compile_whole(model: Any) -> Any:
    return torch.compile(model, backend="eager")


def compile_in_place(model: Any) -> Any:
    model.compile(backend="eager")
    return model


def compile_forward(model: Any) -> Any:
    model.forward = torch.compile(model.forward, backend="eager")
    return model


def compile_block(model: Any) -> Any:
    model.bert.encoder.layer[0] = torch.compile(model.bert.encoder.layer[0], backend="eager")
    return model


def compile_base(model: Any) -> Any:
    model.bert = torch.compile(model.bert, backend="eager")
    return model


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "compile_part",
    [compile_whole, compile_in_place, compile_forward, compile_block, compile_base],
)
def test_compiled_code_runs_eagerly(
    compile_part: Callable[[Any], Any], method: str, expected: dict[str, Tensor]
) -> None:
    assert torch.equal(scores_of(compile_part(bert()), method), expected[method])


def test_code_is_compiled_again_afterwards() -> None:
    compiled = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph

    function = torch.compile(lambda x: x + 1, backend=backend)
    with borrow_model(bert()):
        function(torch.ones(2))
        assert not compiled
    function(torch.ones(2))
    assert compiled


# -- other ways to hold a model -------------------------------------------------------------------


def freeze(model: Any) -> Any:
    return model.requires_grad_(False)


def require_input_gradients(model: Any) -> Any:
    model.enable_input_require_grads()
    return model


def put_in_training_mode(model: Any) -> Any:
    return model.train()


def add_user_hooks(model: Any) -> Any:
    model.bert.encoder.layer[0].register_forward_hook(lambda *_: None)
    model.bert.register_forward_pre_hook(lambda *_: None)
    return model


def pickle_and_load(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "change",
    [
        freeze,
        require_input_gradients,
        put_in_training_mode,
        add_user_hooks,
        copy.deepcopy,
        pickle_and_load,
        nn.DataParallel,
    ],
)
def test_what_makes_no_difference(
    change: Callable[[Any], Any], method: str, expected: dict[str, Tensor]
) -> None:
    assert torch.equal(scores_of(change(bert()), method), expected[method])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["libragrad", "transformer_attribution"])
def test_after_a_fork(method: str, expected: dict[str, Tensor]) -> None:
    """As in a worker of a DataLoader, after the parent has explained something."""
    model = bert()
    scores_of(model, method)
    with borrow_model(model):  # another thread of the parent may hold the model
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if torch.equal(_in_a_thread(model, method), expected[method]) else 2
            finally:
                os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def _in_a_thread(model: Any, method: str) -> Tensor:
    """The scores, from a thread of its own: the forking one is inside an explanation."""
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(scores_of(model, method)), daemon=True)
    thread.start()
    thread.join(timeout=20)
    return found[0]


class Explaining(torch.utils.data.Dataset[Tensor]):
    """Explains in the worker of a DataLoader."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Tensor:
        return scores_of(self.model, "libragrad")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_in_the_worker_of_a_loader(expected: dict[str, Tensor]) -> None:
    loader = torch.utils.data.DataLoader(Explaining(bert()), num_workers=1)
    (found,) = [batch[0] for batch in loader]
    assert torch.equal(found, expected["libragrad"])

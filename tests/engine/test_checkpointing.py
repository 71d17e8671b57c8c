"""memory="checkpoint": the same scores with the graph of one block at a time, or a refusal."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

import whyformer as wf
from tests.methods.test_streamed import LargestTensor
from tests.models.test_quantized import quantise
from tests.several import refuses, target_of
from whyformer.engine import interception
from whyformer.engine.backward import gradients_at
from whyformer.engine.checkpointing import _BlockCall
from whyformer.engine.forward import Trace
from whyformer.engine.passes.attentions import Attentions
from whyformer.engine.passes.forward_only import differentiable_value, record_forward
from whyformer.engine.rules.operations import fused_attention
from whyformer.engine.rules.rule_sets import balanced_rules
from whyformer.engine.run import Run
from whyformer.engine.scope import borrow_model
from whyformer.engine.stacks import find_stacks
from whyformer.engine.streamed_layers import AnyLayer, MixedLayer, StreamedLayer
from whyformer.errors import ModelError, OptionError
from whyformer.inputs.prepare import prepare
from whyformer.models.families import family_of
from whyformer.models.families.tiny import tiny_inputs, tiny_models
from whyformer.models.quantized import dequantise

METHODS = [
    name
    for name, known in wf.methods().items()
    if "gradient" in known.needs and "relevance" not in known.needs and not known.alias
]
MODELS = ("llama", "gpt2", "qwen2", "bert", "vit", "t5", "lxmert")
IDS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 3]])


@cache
def model_of(name: str) -> Any:
    return tiny_models()[name][1]().double()


def both(
    inputs: Any, model: nn.Module, method: str, **options: Any
) -> tuple[wf.Attribution, wf.Attribution]:
    """The attribution with checkpoints, and without."""
    found, expected = (
        wf.explain(inputs, model, method=method, memory=memory, **options)
        for memory in ("checkpoint", None)
    )
    return found, expected


def assert_same(found: wf.Attribution, expected: wf.Attribution, tolerance: float) -> None:
    """Scores, sinks and conservation agree."""

    def close(one: Tensor, other: Tensor) -> None:
        size = float(other.abs().max()) or 1.0
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * size)

    assert found.streams.keys() == expected.streams.keys()
    for stream, wanted in expected.streams.items():
        close(found.streams[stream].scores, wanted.scores)
    assert found.sinks.keys() == expected.sinks.keys()
    for name, sink in expected.sinks.items():
        torch.testing.assert_close(found.sinks[name], sink, rtol=0, atol=tolerance)
    assert (found.conservation is None) == (expected.conservation is None)
    if expected.conservation is not None and found.conservation is not None:
        close(found.conservation, expected.conservation)
    assert [r.text for r in found.trust.reasons] == [r.text for r in expected.trust.reasons]


# Methods that mix attention maps with their gradient.
MAPS: list[tuple[str, dict[str, Any]]] = [
    ("gae", {}),
    ("gae", {"gradient": "balanced"}),
    ("blend", {"share": 0.5}),
]


@pytest.fixture
def recomputed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the blocks that ran again, in order."""
    names: list[str] = []
    original = _BlockCall.gradients

    def note(call: _BlockCall, *args: Any) -> Any:
        names.append(call.name)
        return original(call, *args)

    monkeypatch.setattr(_BlockCall, "gradients", note)
    return names


# -- the same scores ------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_models_by_every_method(model: str, recomputed: list[str]) -> None:
    module = model_of(model)
    for method in METHODS:
        recomputed.clear()
        options = {"steps": 2} if method == "integrated_gradients" else {}
        found, expected = both(
            tiny_inputs(module, (7, 7)), module, method, target=target_of(model), **options
        )
        assert_same(found, expected, 1e-10)
        # It reads only maps of cross-attention, which is no part of LXMERT's blocks.
        assert recomputed or (model, method) == ("lxmert", "grad_cam"), method


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", tiny_models())
def test_every_family(name: str, method: str) -> None:
    if refuses(name, method):
        pytest.skip("the method refuses this model")
    module = model_of(name)
    assert_same(*both(tiny_inputs(module, (7, 5)), module, method, target=target_of(name)), 1e-9)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("libragrad", {"biases": "tokens"}),
        ("libragrad", {"products": "gate", "start_layer": 1}),
        ("libragrad", {"keep": "states"}),
        ("attn_lrp", {"gamma": 0.1, "average": 0.5}),
        ("lrp_ah_ln", {"at": "embeddings", "activations": "identity"}),
        ("gae", {"gradient": "balanced"}),
        ("gae", {"normalize": True, "start_layer": 1}),
        ("gae", {"reduce": "column_sum", "keep": "maps"}),
        ("grad_cam", {"gradient": "balanced"}),
        ("blend", {"share": 0.5, "start_layer": 1}),
    ],
)
def test_options_of_methods(method: str, options: dict[str, Any]) -> None:
    model = model_of("gpt2")
    assert_same(*both(tiny_inputs(model), model, method, target=1, **options), 1e-10)


@pytest.mark.parametrize(("method", "options"), MAPS)
@pytest.mark.parametrize("model", [*MODELS, "clip", "bart", "visual_bert"])
def test_maps_of_models_with_one_stream_and_several(
    model: str, method: str, options: dict[str, Any], recomputed: list[str]
) -> None:
    module = model_of(model)
    inputs = tiny_inputs(module, (7, 5))
    found, expected = both(inputs, module, method, target=target_of(model), **options)
    assert_same(found, expected, 1e-10)
    assert recomputed
    assert found.maps.keys() == expected.maps.keys()
    for pair, wanted in expected.maps.items():
        torch.testing.assert_close(found.maps[pair], wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("model", ["vit", "clip"])
def test_the_default_method_on_an_image(model: str, recomputed: list[str]) -> None:
    module = model_of(model)
    found, expected = both(tiny_inputs(module), module, "auto", target=target_of(model))
    assert_same(found, expected, 1e-10)
    assert found.method == "blend"
    assert recomputed


@pytest.mark.parametrize(("method", "options"), MAPS)
@pytest.mark.parametrize("model", ["llama", "t5"])
def test_maps_of_answers(model: str, method: str, options: dict[str, Any]) -> None:
    """One forward, and a backward pass for each token: the blocks run again for each."""
    module = model_of(model)
    given = tiny_inputs(module, (7, 5), padding="left")
    inputs = {key: value for key, value in given.items() if not key.startswith("decoder")}
    found, expected = both(inputs, module, method, target=[[7, 9, 11], [12, 8]], **options)
    assert_same(found, expected, 1e-10)
    assert expected.maps
    for pair, wanted in expected.maps.items():
        torch.testing.assert_close(found.maps[pair], wanted, rtol=0, atol=1e-10)


def text_alone(output: Any) -> Tensor:
    value: Tensor = output.text_embeds[:, 1]
    return value


def test_blocks_that_the_target_does_not_read() -> None:
    """Their mixing is 0. A method that needs their maps is refused."""
    module = model_of("clip")
    inputs = tiny_inputs(module)
    assert_same(*both(inputs, module, "gae", target=text_alone), 1e-10)
    with pytest.raises(ModelError, match="does not read every block of CLIPModel") as refused:
        wf.explain(inputs, module, method="legrad", target=text_alone, memory="checkpoint")
    assert refused.value.argument == "memory"


def test_blocks_run_again_from_the_top(recomputed: list[str]) -> None:
    model = model_of("llama")
    wf.explain(tiny_inputs(model, (6,)), model, method="libragrad", target=1, memory="checkpoint")
    count = model.config.num_hidden_layers
    wanted = [f"block 'model.layers.{i}' of {type(model).__name__}" for i in range(count)]
    assert recomputed == wanted[::-1]


def test_a_second_backward_pass_recomputes_and_books_the_same(recomputed: list[str]) -> None:
    """One forward serves several backward passes, as answers of many tokens need them."""
    model = model_of("gpt2")
    family = family_of(model)
    assert family is not None
    batch = prepare(tiny_inputs(model, (6,)), model, None, family)
    run = Run(model, batch, find_stacks(model, "text", family), 1, family, memory="checkpoint")
    found: list[tuple[Tensor, dict[str, Tensor]]] = []
    for memory in ("checkpoint", None):
        with borrow_model(model):
            chosen = replace(run, memory=memory)
            trace, ledger = Trace(), chosen.new_ledger(True)
            recorded = record_forward(chosen, balanced_rules().table, trace, ledger)
            value = recorded.aim(chosen).goal
            for _ in range(2):
                ledger.clear()
                places = {"states": [*trace.states.values()]}
                slopes = gradients_at(differentiable_value(value), places, True)
                found.append((slopes["states"][0], dict(ledger.sinks)))
    assert len(recomputed) == 2 * model.config.num_hidden_layers
    first = found[0]
    assert first[0].abs().max() > 0
    assert first[1]
    for slope, sinks in found[1:]:
        torch.testing.assert_close(slope, first[0], rtol=0, atol=1e-12)
        assert sinks.keys() == first[1].keys()
        for name, sink in sinks.items():
            torch.testing.assert_close(sink, first[1][name], rtol=0, atol=1e-12)


# -- memory ---------------------------------------------------------------------------------------


class Alive:
    """The most bytes that were alive at once of what modules inside the blocks returned."""

    def __init__(self, blocks: nn.ModuleList) -> None:
        self.most = 0
        self._seen: dict[int, tuple[StorageWeakRef, int]] = {}
        inside = [part for block in blocks for part in block.modules() if part is not block]
        self._handles = [part.register_forward_hook(self._note) for part in inside]

    def _note(self, module: nn.Module, args: tuple, output: Any) -> None:
        tensor = output if isinstance(output, Tensor) else output[0]
        with torch._C.DisableTorchFunction():
            storage = tensor.untyped_storage()
        self._seen[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        living = [size for weak, size in self._seen.values() if not weak.expired()]
        self.most = max(self.most, sum(living))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def most_alive(layers: int, memory: str | None, method: str) -> int:
    model: Any = tiny_models()["llama"][1](num_hidden_layers=layers).double()
    inputs = tiny_inputs(model, (7,))
    wf.explain(inputs, model, method=method, target=1)  # the check of the value runs once
    alive = Alive(model.model.layers)
    gc.disable()  # the graph must go by itself
    try:
        wf.explain(inputs, model, method=method, target=1, memory=memory)
    finally:
        gc.enable()
        alive.remove()
    return alive.most


@pytest.mark.parametrize("method", ["libragrad", "gae"])
def test_only_one_block_is_alive_at_a_time(method: str) -> None:
    assert most_alive(6, "checkpoint", method) == most_alive(2, "checkpoint", method) > 0
    assert most_alive(6, None, method) > 2 * most_alive(2, None, method)


def most_dequantised(layers: int, memory: str | None, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many float weights made from integers were alive at once."""
    model: Any = tiny_models()["bert"][1](num_hidden_layers=layers).double()
    for part in model.bert.encoder.modules():
        if isinstance(part, nn.Linear):
            quantise(part)
    made: list[StorageWeakRef] = []
    most = 0

    def note(weight: Tensor) -> Tensor:
        nonlocal most
        floats = dequantise(weight)
        made.append(StorageWeakRef(floats.untyped_storage()))
        most = max(most, sum(not one.expired() for one in made))
        return floats

    monkeypatch.setattr(interception, "dequantise", note)
    wf.explain(tiny_inputs(model, (5,)), model, method="libragrad", target=1, memory=memory)
    return most


def test_only_one_block_of_integer_weights_is_dequantised_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside = 6  # linear layers of a block
    assert 0 < most_dequantised(4, "checkpoint", monkeypatch) <= inside
    assert most_dequantised(4, None, monkeypatch) > 2 * inside


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> list[AnyLayer]:
    """The layers that walks over attention maps read, in order."""
    seen: list[AnyLayer] = []
    original = Attentions.result

    def note(found: Attentions, *args: Any) -> Any:
        seen.extend(found.layers)
        return original(found, *args)

    monkeypatch.setattr(Attentions, "result", note)
    return seen


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(("method", "options"), MAPS)
def test_maps_are_mixed_while_their_block_runs_again(
    attention: str, method: str, options: dict[str, Any], layers: list[AnyLayer]
) -> None:
    """What is left of a layer is one matrix without heads."""
    model: Any = tiny_models()["bert"][1](attn_implementation=attention).double()
    found, expected = both(tiny_inputs(model, (7,)), model, method, target=1, **options)
    assert_same(found, expected, 1e-10)
    shapes = [one.matrix.shape for one in layers if isinstance(one, MixedLayer)]
    assert shapes == [(1, 7, 7)] * model.config.num_hidden_layers


@pytest.mark.parametrize(("method", "options"), MAPS)
def test_queries_and_keys_are_kept_if_they_are_smaller(
    method: str, options: dict[str, Any], layers: list[AnyLayer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix of tokens x tokens is larger than they are if the prompt is long."""
    tokens = 400
    monkeypatch.setattr(fused_attention, "ENTRIES", 4 * 32 * tokens)
    model: Any = tiny_models()["llama"][1](max_position_embeddings=tokens).double()
    inputs = {"input_ids": torch.randint(5, 60, (1, tokens))}
    with LargestTensor() as largest:
        found = wf.explain(inputs, model, method=method, target=1, memory="checkpoint", **options)
    assert all(isinstance(one, StreamedLayer) for one in layers)
    assert largest.entries < tokens**2
    expected = wf.explain(inputs, model, method=method, target=1, memory="maps", **options)
    assert_same(found, expected, 1e-10)


# -- models as people run them --------------------------------------------------------------------


@pytest.mark.parametrize("memory", [None, "checkpoint"])
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize(
    ("model_name", "method"),
    [("llama", "libragrad"), ("llama", "gae"), ("bert", "gae"), ("vit", "gae"), ("vit", "blend")],
)
def test_checkpoints_that_the_user_switched_on(
    model_name: str, method: str, reentrant: bool, memory: str | None
) -> None:
    model = copy.deepcopy(model_of(model_name))
    inputs = tiny_inputs(model, (7,))
    wanted = wf.explain(inputs, model, method=method, target=1)
    model.train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    found = wf.explain(inputs, model, method=method, target=1, memory=memory)
    assert_same(found, wanted, 1e-10)
    assert model.training
    assert model.is_gradient_checkpointing


def test_a_cache_that_the_user_asks_for() -> None:
    """A block that runs again must not add its keys and values twice."""
    model = model_of("llama")
    inputs = {**tiny_inputs(model, (7, 7)), "use_cache": True}
    for method in ("libragrad", "gae"):
        assert_same(*both(inputs, model, method, target=1), 1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    model = copy.deepcopy(model_of("gpt2")).to(dtype)
    assert_same(*both(tiny_inputs(model), model, "libragrad", target=1), 1e-5)
    found, expected = (
        wf.explain(tiny_inputs(model), model, method="gae", target=1, memory=memory)
        for memory in ("checkpoint", "streamed")
    )
    assert found.scores.dtype == torch.float32
    assert_same(found, expected, 1e-5)


def test_weights_that_are_offloaded() -> None:
    accelerate = pytest.importorskip("accelerate")
    model = copy.deepcopy(model_of("llama"))
    inputs = tiny_inputs(model, (7,))
    wanted = wf.explain(inputs, model, method="libragrad", target=1)
    accelerate.cpu_offload(model, execution_device="cpu")
    found = wf.explain(inputs, model, method="libragrad", target=1, memory="checkpoint")
    assert_same(found, wanted, 1e-10)
    assert all(weight.is_meta for weight in model.parameters())


def test_hooks_of_the_user_run_on_blocks_as_always() -> None:
    """A hook on a block changes what it returns once, not again in the second run."""
    model = copy.deepcopy(model_of("llama"))
    model.model.layers[0].register_forward_hook(lambda m, args, out: out * 2)
    model.model.layers[1].mlp.register_forward_hook(lambda m, args, out: out * 3)
    assert_same(*both(tiny_inputs(model, (7,)), model, "libragrad", target=1), 1e-10)


# -- odd blocks -----------------------------------------------------------------------------------


class Block(nn.Module):
    """x + a layer of the mean of all tokens and x; subclasses do something odd besides."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        return x + self.layer(x + x.mean(1, keepdim=True)).relu()


class Net(nn.Module):
    def __init__(self, block: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList([block() for _ in range(3)])
        self.head = nn.Linear(8, 3)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids)
        for block in self.blocks:
            x = self.step(block, x)
        return self.head(x.mean(1))

    def step(self, block: nn.Module, x: Tensor) -> Tensor:
        return block(x)


def net_of(block: Callable[[], nn.Module], kind: type[Net] = Net) -> Net:
    torch.manual_seed(0)
    return kind(block).double().eval()


def explain_net(model: Net, memory: str | None = "checkpoint", method: str = "libragrad") -> Any:
    return wf.explain(
        {"input_ids": IDS}, model, method=method, target=1, blocks="blocks", memory=memory
    )


class Tuples(Block):
    """Takes tensors by name and in tuples, and returns some in a mapping."""

    def forward(self, states: Tensor, *, pair: tuple[Tensor, str]) -> Any:  # type: ignore[override]
        changed = super().forward(states) + pair[0].tanh()
        return {"states": changed, "gate": self.layer(changed).relu(), "unused": pair[1]}


class NetOfTuples(Net):
    def step(self, block: nn.Module, x: Tensor) -> Tensor:
        found = block(states=x, pair=(x * 2, "name"))
        return found["states"] + found["gate"]


@pytest.mark.parametrize("method", ["libragrad", "lrp_ah_ln", "gradient_x_input"])
def test_tuples_names_and_mappings(method: str) -> None:
    model = net_of(Tuples, NetOfTuples)
    if method == "lrp_ah_ln":
        with pytest.raises(ModelError, match="no attention was seen"):
            explain_net(model, method=method)
        return
    found, expected = (explain_net(model, memory, method) for memory in ("checkpoint", None))
    assert_same(found, expected, 1e-10)


class Shared(Block):
    """Reads what the block before it left behind."""

    left: Tensor | None = None

    def forward(self, x: Tensor) -> Any:
        before, Shared.left = Shared.left, self.layer(x)
        return super().forward(x) + (0 if before is None else before)


class Overwriting(Block):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x.mul_(2))


class Drawing(Block):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x) + torch.rand(())


class Counting(Block):
    """Fails when it runs a second time."""

    runs = 0

    def forward(self, x: Tensor) -> Any:
        self.runs += 1
        return super().forward(x)[:, : x.shape[1] if self.runs < 2 else "no"]


class Keeping(Block):
    def forward(self, x: Tensor) -> Any:
        self.kept = self.layer(x)
        return super().forward(x)


class NetOfKept(Net):
    def forward(self, input_ids: Tensor) -> Tensor:
        return super().forward(input_ids) + self.head(self.blocks[0].kept.mean(1))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("block", "kind", "reason"),
    [
        (Shared, Net, r"block 'blocks\.1' of Net reads token states that are not among its arg"),
        (Overwriting, Net, r"block 'blocks\.0' of Net writes into the token states"),
        (Drawing, Net, r"block 'blocks\.2' of Net returns something else when it runs again"),
        (Counting, Net, r"block 'blocks\.2' of Net fails when it runs again, with TypeError"),
        (Keeping, NetOfKept, r"NetOfKept reads tensors from inside its blocks"),
    ],
)
def test_blocks_that_cannot_run_twice_are_refused_by_name(
    block: type[Block], kind: type[Net], reason: str
) -> None:
    Shared.left = None
    model = net_of(block, kind)
    with pytest.raises(ModelError, match=reason) as refused:
        explain_net(model)
    assert refused.value.argument == "memory"
    assert all("forward" not in vars(one) for one in model.blocks)
    Shared.left = None


def test_nothing_stays_on_the_blocks() -> None:
    model = net_of(Block)
    own = model.blocks[1].forward
    model.blocks[1].forward = own  # as accelerate does
    assert_same(explain_net(model), explain_net(model, None), 1e-10)
    assert "forward" not in vars(model.blocks[0])
    assert vars(model.blocks[1])["forward"] is own
    assert not any(part._forward_hooks for part in model.modules())


# -- what it cannot be combined with --------------------------------------------------------------


@pytest.mark.parametrize("method", ["rollout", "raw_attention", "partial_lrp", "full_lrp"])
def test_methods_that_read_maps_are_refused_with_those_that_work(method: str) -> None:
    with pytest.raises(OptionError, match="drops the attention maps that method") as refused:
        wf.explain("a film", method=method, memory="checkpoint")
    assert all(f"'{one}'" in str(refused.value) for one in METHODS)


def test_relevance_of_maps_is_refused() -> None:
    model = model_of("bert")
    with pytest.raises(OptionError, match="drops the attention maps that this method reads"):
        wf.explain(
            tiny_inputs(model), model, method="gae", use_lrp=True, target=1, memory="checkpoint"
        )


@pytest.mark.parametrize(
    ("method", "keep"),
    [
        ("libragrad", "attention"),
        ("libragrad", "gradient"),
        ("libragrad", "nodes"),
        ("gae", "attention"),
        ("blend", "nodes"),
    ],
)
def test_what_is_inside_the_blocks_cannot_be_kept(method: str, keep: str) -> None:
    with pytest.raises(OptionError, match=r"drops what is inside the blocks, and keep=\['"):
        wf.explain("a film", method=method, memory="checkpoint", keep=keep)


@pytest.mark.parametrize("method", ["occlusion", "random"])
def test_methods_without_a_graph_run_as_always(method: str) -> None:
    model = model_of("bert")
    assert_same(*both(tiny_inputs(model, (5,)), model, method, target=1), 1e-12)

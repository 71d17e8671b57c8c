"""Every family's declaration is true of its models, checked on its tiny models."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from itertools import pairwise
from operator import attrgetter

import pytest
import torch
from torch import nn

import whyformer as wf
from tests.models.families.kin import HEADLESS, KIN
from tests.several import QUERIES_OF_ZEROS, SEVERAL, WITHOUT_MAPS, sources_of, target_of
from whyformer.models.families import Family, families, family_of
from whyformer.models.families.tiny import tiny_inputs, tiny_models

TEXT = {"albert", "bert", "deberta_v2", "distilbert", "electra", "modernbert", "mpnet", "roberta"}
IMAGE = {"beit", "deit", "dinov2", "vit"}
CAUSAL = {"gemma", "gpt2", "llama", "qwen2", "qwen3"}
# Families of one stream are run by hand; those of several are looked at through what is declared.
ALONE = [name for name in tiny_models() if name not in SEVERAL]


@cache
def build_model(name: str) -> tuple[Family, nn.Module]:
    family, builder = tiny_models()[name]
    return family, builder(attn_implementation="eager")


@cache
def run_blocks(name: str) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], torch.Tensor, tuple]:
    """(input, output) of every block call, the logits and the attention maps of one forward."""
    family, model = build_model(name)
    calls = []

    def note(module: nn.Module, args: tuple, kwargs: dict, result: object) -> None:
        entered = args[0] if args else kwargs["hidden_states"]
        left = result[0] if isinstance(result, tuple) else result
        calls.append((entered, left))

    blocks = attrgetter(family.blocks)(model.base_model)
    hooks = [block.register_forward_hook(note, with_kwargs=True) for block in blocks]
    output = model(**tiny_inputs(model), output_attentions=True, output_hidden_states=True)
    for hook in hooks:
        hook.remove()
    assert torch.equal(calls[0][0], output.hidden_states[0])
    return calls, output.logits, output.attentions


def test_the_first_families_are_there() -> None:
    assert set(families) >= TEXT | IMAGE | CAUSAL
    assert {families[name].stream for name in TEXT | CAUSAL} == {"text"}
    assert {families[name].stream for name in IMAGE} == {"image"}
    assert {name for name, known in families.items() if known.causal} >= CAUSAL


def test_every_file_registers_families_of_its_own_name() -> None:
    # By name: the attribute `whyformer.models.families` is the function of the public surface.
    folder = importlib.import_module("whyformer.models.families")
    files = {module.name for module in pkgutil.iter_modules(folder.__path__)}
    homes: dict[str, str] = {}
    shared = {"family", "tiny", "encoder_decoder", "blip", "speech", "composed"}
    shared |= {"soft", "image_items", "vision_language"}
    for file in sorted(files - shared):
        module = vars(importlib.import_module(f"whyformer.models.families.{file}"))
        declared = {k for k, v in module.items() if isinstance(v, Family)}
        assert declared, file
        for name in declared:
            assert module[name] is families[name]
            assert name.startswith(file), f"{file} declares {name}"
            homes[name] = file
    assert set(homes) == set(families)


def test_no_model_and_no_tiny_name_is_taken_twice() -> None:
    # Families with a condition share a class: T5 or a decoder as the language model of BLIP-2.
    claimed = [
        (kind, only, known.when)
        for known in families.values()
        for kind in known.model_types
        for only in known.classes or (None,)
    ]
    assert len(claimed) == len(set(claimed))
    models = {(kind, only) for kind, only, _ in claimed}
    names = [n for known in families.values() for n in (known.name, *known.variants)]
    assert len(names) == len(set(names))
    whole = {kind for kind, only in models if only is None}
    assert not whole & {kind for kind, only in models if only is not None}, "two families claim it"


@pytest.mark.parametrize("name", tiny_models())
def test_its_tiny_model_is_recognised(name: str) -> None:
    family, model = build_model(name)
    assert family_of(model) is family
    assert not any(module.training for module in model.modules())


@pytest.mark.parametrize("name", [name for name, one in families.items() if one.model_types])
def test_every_model_type_it_covers_has_a_tiny_model_or_is_its_kin(name: str) -> None:
    family = families[name]
    tried = {build_model(tiny)[1].config.model_type for tiny in (name, *family.variants)}
    # mT5 and mBART are T5 and BART by another name: tests/test_odd_streams.py builds them.
    # The kin of a family differ from its tiny models in arithmetic only: test_kin.py builds them.
    assert not tried & KIN.keys()
    assert tried == set(family.model_types) - {"mt5", "mbart"} - KIN.keys() - HEADLESS.keys()


def test_an_unknown_model_has_no_family() -> None:
    assert family_of(nn.Linear(2, 2)) is None


@pytest.mark.parametrize("name", ALONE)
def test_blocks_run_from_the_embedded_tokens_to_the_final_states(name: str) -> None:
    calls, logits, _ = run_blocks(name)
    assert len(calls) == build_model(name)[1].config.num_hidden_layers
    for (_, left), (entered, _) in pairwise(calls):
        # DeBERTa's convolution stands between block one and two, and nothing else anywhere.
        assert torch.equal(left, entered) or name == "deberta_v2_conv"
    assert all(states.shape == calls[0][0].shape for call in calls for states in call)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", ALONE)
def test_tokens_are_prefix_and_grid_or_every_input_token(name: str) -> None:
    family, model = build_model(name)
    entered = run_blocks(name)[0][0][0]
    if family.stream == "image":
        side = model.config.image_size // model.config.patch_size
        assert entered.shape[1] == family.prefix_tokens(model.config) + side * side
    else:
        assert entered.shape[1] == tiny_inputs(model)["input_ids"].shape[1]


@cache
def attribution_of(name: str) -> wf.Attribution:
    """Attention and states of a model of several streams, one sample padded."""
    _, model = build_model(name)
    return wf.explain(
        tiny_inputs(model),
        model,
        method="gradient_x_input",
        target=target_of(name),
        keep=("states",) if name in WITHOUT_MAPS else ("attention", "states"),
    )


@pytest.mark.parametrize("name", SEVERAL)
def test_every_stream_is_declared_with_its_source_or_is_the_models_own(name: str) -> None:
    family, model = build_model(name)
    declared = {s for stack in family.all_stacks for s in stack.streams}
    given = {source.stream for source in sources_of(model)}
    assert given <= declared
    again = {s for stack in family.all_stacks if stack.like in given for s in stack.streams}
    assert declared - given <= {"queries", "probe"} | again
    assert family.stream in given
    placed = {soft.stream for soft in family.soft if soft.carrier in tiny_inputs(model)}
    shown = {s for s in attribution_of(name).streams if s.removesuffix(" overview") == s}
    assert shown == declared - {"probe"} | placed
    for source in family.sources:
        model.get_submodule(source.part)
    paths = [step for pair in family.attention.values() for step in _names(pair)]
    assert set(paths) <= {stack.name for stack in family.all_stacks}


def _names(pair: tuple) -> list[str]:
    return [n for part in pair for n in (_names(part) if isinstance(part, tuple) else [part])]


@pytest.mark.parametrize("name", SEVERAL)
def test_the_states_are_what_the_declared_blocks_are_given(name: str) -> None:
    """One row of numbers per token of every stream, no two streams the same."""
    attribution = attribution_of(name)
    states = {k: s.states for k, s in attribution.streams.items() if s.states is not None}
    assert states.keys() == attribution.streams.keys()
    for stream, found in states.items():
        assert found.shape[:2] == attribution.streams[stream].scores.shape
        assert found.isfinite().all()
    for stream, found in states.items():
        zeros = stream == "queries" and name in QUERIES_OF_ZEROS
        assert found.any() != zeros, "these start as zeros"


@pytest.mark.parametrize("name", [name for name in SEVERAL if name not in WITHOUT_MAPS])
def test_every_attention_is_labelled_and_prefers_some_tokens(name: str) -> None:
    family, _ = build_model(name)
    layers = attribution_of(name).layers
    pairs = {(layer.asking, layer.answering) for layer in layers}
    stacks = {stack.name for stack in family.all_stacks}
    assert {part for pair in pairs for part in pair} == stacks
    assert len(layers) >= 2 * len([s for s in family.all_stacks if not s.hidden])
    for layer in layers:
        attention = layer.attention
        assert attention is not None
        torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention.sum(-1)))
        if attention.shape[-1] > 1:
            assert attention[0, :, -1].std(dim=-1).mean() > 0.004, (layer.asking, layer.answering)


@pytest.mark.parametrize("name", ALONE)
def test_attention_prefers_some_tokens(name: str) -> None:
    """On flat attention a wrong rule and a right one would agree."""
    for attention in run_blocks(name)[2]:
        assert attention[0, :, -1].std(dim=-1).mean() > 0.02


@pytest.mark.parametrize("name", tiny_models())
def test_every_parameter_is_off_its_resting_value(name: str) -> None:
    _, model = build_model(name)
    for parameter in model.parameters():
        assert parameter.numel() < 8 or parameter.std() > 0.1


@pytest.mark.parametrize("name", ALONE)
def test_causal_means_that_later_tokens_change_nothing_before_them(name: str) -> None:
    family, model = build_model(name)
    if family.stream != "text":
        assert not family.causal
        return
    inputs = tiny_inputs(model, (7, 7))
    blocks = attrgetter(family.blocks)(model.base_model)
    last: list[torch.Tensor] = []

    def note(module: nn.Module, args: object, result: object) -> None:
        last.append(result[0] if isinstance(result, tuple) else result)

    hooks = [block.register_forward_hook(note) for block in blocks]
    model(**inputs)
    before = last[-1]
    inputs["input_ids"][:, -1] = 5 + (inputs["input_ids"][:, -1] - 4) % 55
    model(**inputs)
    for hook in hooks:
        hook.remove()
    moved = (before - last[-1])[:, :-1].abs().max()
    assert (moved < 1e-6) == family.causal


@pytest.mark.parametrize("name", [n for n, known in families.items() if known.relu])
def test_its_relu_model_has_no_other_activation(name: str) -> None:
    model = families[name].relu()
    # VisualBERT's question answering reads past the pooler, which is there all the same.
    parts = [m for n, m in model.named_modules() if name != "visual_bert" or "pooler" not in n]
    seen = {type(m).__name__ for m in parts}
    assert not [n for n in seen if any(s in n.lower() for s in ("gelu", "silu", "tanh"))]
    assert "ReLU" in seen
    assert family_of(model) is families[name]


def test_building_leaves_the_random_state_and_repeats_itself() -> None:
    before = torch.get_rng_state()
    first, second = families["bert"].tiny(), families["bert"].tiny()
    other = families["bert"].tiny(seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, second.get_parameter(name))
        assert not torch.equal(parameter, other.get_parameter(name))


def test_changes_reach_the_config() -> None:
    model = families["bert"].tiny(hidden_act="relu", num_labels=5, attn_implementation="eager")
    assert model.config.hidden_act == "relu"
    assert model.config._attn_implementation == "eager"
    assert model.classifier.out_features == 5


def test_tiny_inputs_hold_the_same_sample_whatever_the_padding() -> None:
    model = build_model("roberta")[1]
    right, left = tiny_inputs(model), tiny_inputs(model, padding="left")
    alone = tiny_inputs(model, (7, 5, 9))
    assert right["attention_mask"].tolist() == [[1] * 7, [1] * 5 + [0] * 2]
    assert left["attention_mask"].tolist() == [[1] * 7, [0] * 2 + [1] * 5]
    assert torch.equal(right["input_ids"][1, :5], left["input_ids"][1, 2:])
    assert torch.equal(right["input_ids"][1, :5], alone["input_ids"][1, :5])
    assert right["input_ids"][1, 5:].eq(model.config.pad_token_id).all()

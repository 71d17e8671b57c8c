"""Wrappers around a model: pipelines, parallel and sentence models, PEFT, offloaded weights."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import whyformer as wf
from whyformer.errors import InputError, ModelError, OptionError, TargetError
from whyformer.models.families.tiny import tiny_inputs, tiny_models
from whyformer.models.load import load_model
from whyformer.models.processors import image_processor_of, tokenizer_of
from whyformer.models.quiet import quiet_loading
from whyformer.models.unwrap import unwrap

pytestmark = pytest.mark.slow

Build = Callable[..., nn.Module]
METHODS = ("libragrad", "gae", "transformer_attribution", "full_lrp", "attn_lrp", "occlusion")


def bert() -> Any:
    return tiny_models()["bert"][1]().double()


def scores_of(model: Any, method: str) -> Tensor:
    return wf.explain(tiny_inputs(bert()), model, method=method, target=1).scores


def package(name: str) -> Any:
    """An optional package, imported without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


# -- parallel and compiled ------------------------------------------------------------------------


def test_wrappers_in_wrappers(bert: nn.Module) -> None:
    with quiet_loading():  # torch.compile imports what is deprecated
        wrapped = nn.DataParallel(torch.compile(nn.DataParallel(bert)))
    loaded = load_model(wrapped)
    assert loaded.module is bert
    assert loaded.name == "BertForSequenceClassification"


def test_distributed_models_are_explained_by_the_module_inside(bert: nn.Module) -> None:
    class DistributedDataParallel(nn.Module):
        """As torch's, which cannot be made without a process group."""

        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    assert unwrap(DistributedDataParallel(bert)) == (bert, None)


def test_sharded_models_are_refused(bert: nn.Module) -> None:
    sharded = type("FullyShardedDataParallel", (nn.Module,), {})()
    with pytest.raises(ModelError, match="each process holds only a part of every weight"):
        load_model(sharded)


def test_exported_programs_are_refused() -> None:
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    with pytest.raises(ModelError, match=r"ExportedProgram .*Pass the original nn\.Module"):
        load_model(program)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_traced_modules_have_a_name_and_arguments() -> None:
    class Named(nn.Module):
        def forward(self, ids: Tensor) -> Tensor:
            return ids * 2.0

    traced = torch.jit.trace(Named(), (torch.ones(1, 2),))
    assert load_model(traced).name == "Named"
    with pytest.raises(ModelError, match="blocks"):
        wf.explain({"ids": torch.ones(1, 2)}, traced, method="gae")


# -- pipelines ------------------------------------------------------------------------------------


def pipeline(task: str, **parts: Any) -> Any:
    with quiet_loading():
        return transformers.pipeline(task, device="cpu", **parts)


@pytest.mark.parametrize(
    ("task", "architecture", "inputs", "target"),
    [
        ("text-classification", "BertForSequenceClassification", "a gripping film", None),
        ("token-classification", "BertForTokenClassification", "a film", wf.token(1)),
        ("fill-mask", "BertForMaskedLM", "a [MASK] film", None),
        ("zero-shot-classification", "BertForSequenceClassification", ("a film", "plot"), 1),
    ],
)
def test_text_pipelines(
    task: str, architecture: str, inputs: Any, target: Any, build: Build, wordpiece: Any
) -> None:
    model = build(architecture)
    made = pipeline(task, model=model, tokenizer=wordpiece)
    wanted = wf.explain(inputs, model, processor=wordpiece, target=target)
    found = wf.explain(inputs, made, target=target)
    assert torch.equal(found.scores, wanted.scores)
    assert found.streams["text"].tokens == wanted.streams["text"].tokens
    assert found.provenance["model"] == architecture


def test_an_image_pipeline(vit: Any, picture: Path) -> None:
    processor = transformers.ViTImageProcessorPil(size={"height": 8, "width": 8})
    made = pipeline("image-classification", model=vit, image_processor=processor)
    loaded = load_model(made)
    assert image_processor_of(loaded.processor, loaded.module) is processor
    wanted = wf.explain(picture, vit, processor=processor)
    assert torch.equal(wf.explain(picture, made).scores, wanted.scores)


def test_the_users_tokenizer_wins_over_that_of_the_pipeline(
    bert: nn.Module, wordpiece: Any, byte_bpe: Any
) -> None:
    made = pipeline("text-classification", model=bert, tokenizer=wordpiece)
    assert load_model(made, byte_bpe).processor is byte_bpe
    loaded = load_model(made)
    assert tokenizer_of(loaded.processor, loaded.module) is wordpiece


# -- sentence models ------------------------------------------------------------------------------


@pytest.fixture
def sentence_model(tmp_path: Path, build: Build, wordpiece: Any) -> Any:
    """A tiny BERT with mean pooling and embeddings of length 1, in float64."""
    package("sentence_transformers")
    with quiet_loading():
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer import modules

        base: Any = build("BertModel")
        base.save_pretrained(tmp_path / "base")
        wordpiece.save_pretrained(tmp_path / "base")
        transformer = modules.Transformer(str(tmp_path / "base"))
        parts = [transformer, modules.Pooling(16), modules.Normalize()]
        return SentenceTransformer(modules=parts, device="cpu").double()


PAIR = ("a gripping film", "the plot is good.")


@pytest.mark.parametrize("method", ["libragrad", "attn_lrp"])
def test_the_similarity_of_a_pair(sentence_model: Any, method: str) -> None:
    found = wf.explain(PAIR, sentence_model, method=method)
    with torch.no_grad():
        left, right = torch.tensor(sentence_model.encode(list(PAIR))).double()
    torch.testing.assert_close(found.output, (left @ right).repeat(2))
    torch.testing.assert_close(found.conservation, torch.ones(2).double(), atol=1e-8, rtol=0)
    assert found.labels == ("similarity", "similarity")
    tokens = found.streams["text"].tokens
    assert tokens is not None
    assert [row[1] for row in tokens] == ["a", "the"]


@pytest.mark.parametrize("method", ["libragrad", "occlusion", "integrated_gradients", "gae"])
def test_the_other_sentence_is_a_constant(sentence_model: Any, method: str) -> None:
    """Each row has the scores of its sentence against the fixed embedding of the other."""
    found = wf.explain([PAIR, ("a bad film", "a good film")], sentence_model, method=method)
    other = torch.tensor(sentence_model.encode([PAIR[1]])).double()

    def similarity(output: dict[str, Tensor]) -> Tensor:
        return output["sentence_embedding"] @ other[0]

    wanted = wf.explain([PAIR[0]], sentence_model, method=method, target=similarity)
    count = wanted.scores.shape[1]
    torch.testing.assert_close(found.scores[0, :count], wanted.scores[0])


def test_pairs_in_a_comparison(sentence_model: Any) -> None:
    compared = wf.compare(PAIR, sentence_model, methods=("libragrad", "gae"))
    wanted = wf.explain(PAIR, sentence_model, method="gae")
    found = next(one for one in compared if one.method == "gae")
    assert torch.equal(found.scores, wanted.scores)


def test_an_embedding_is_no_list_of_classes(sentence_model: Any) -> None:
    with pytest.raises(TargetError, match=r"sentence_embedding\. Pass target="):
        wf.explain("a film", sentence_model)


def test_a_sentence_model_with_a_prompt_is_refused(sentence_model: Any) -> None:
    sentence_model.prompts = {"query": "find: "}
    sentence_model.default_prompt_name = "query"
    with pytest.raises(ModelError, match="puts its prompt 'query' before every text"):
        wf.explain(PAIR, sentence_model)


def test_one_encoder_per_sentence_model(sentence_model: Any) -> None:
    """Threads that share the sentence model share its lock, too."""
    assert load_model(sentence_model).module is not load_model(copy.copy(sentence_model)).module
    first = load_model(sentence_model)
    assert load_model(sentence_model).module is first.module


def test_a_cross_encoder(tmp_path: Path, build: Build, wordpiece: Any) -> None:
    package("sentence_transformers")
    with quiet_loading():
        from sentence_transformers import CrossEncoder

        classifier: Any = build("BertForSequenceClassification", num_labels=1)
        classifier.save_pretrained(tmp_path)
        wordpiece.save_pretrained(tmp_path)
        encoder = CrossEncoder(str(tmp_path), device="cpu")
    found = wf.explain(PAIR, encoder)
    assert torch.equal(found.scores, wf.explain(PAIR, classifier, processor=wordpiece).scores)


# -- PEFT -----------------------------------------------------------------------------------------


def adapted(kind: str, **settings: Any) -> Any:
    peft = package("peft")
    config = getattr(peft, kind)(task_type="SEQ_CLS", **settings)
    torch.manual_seed(0)
    return peft.get_peft_model(bert(), config).double().eval()


ADAPTERS = [
    ("LoraConfig", {"init_lora_weights": False}),
    ("LoraConfig", {"init_lora_weights": False, "use_dora": True}),
    ("IA3Config", {"init_ia3_weights": False}),
    ("AdaLoraConfig", {"init_lora_weights": False, "init_r": 4, "total_step": 10}),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("kind", "settings"), ADAPTERS)
def test_adapters_give_the_scores_of_merged_weights(
    kind: str, settings: dict[str, Any], method: str
) -> None:
    model = adapted(kind, **settings)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    merged = copy.deepcopy(model).merge_and_unload()
    torch.testing.assert_close(scores_of(model, method), scores_of(merged, method))
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert not any(getattr(part, "merged", False) for part in model.modules())


@pytest.mark.parametrize("method", ["libragrad", "full_lrp"])
def test_an_adapter_that_is_off_changes_nothing(method: str) -> None:
    model = adapted("LoraConfig", init_lora_weights=False)
    wanted = scores_of(bert(), method)
    # The classifier is trained beside the adapter, so it comes back with it.
    with model.disable_adapter():
        torch.testing.assert_close(scores_of(model, method), wanted)
    assert not torch.allclose(scores_of(model, method), wanted)


def test_the_active_adapter_counts() -> None:
    peft = package("peft")
    model = adapted("LoraConfig", init_lora_weights=False)
    first = scores_of(model, "full_lrp")
    model.add_adapter("second", peft.LoraConfig(task_type="SEQ_CLS", init_lora_weights=False))
    model.double().set_adapter("second")
    second = scores_of(model, "full_lrp")
    merged = copy.deepcopy(model).merge_and_unload()
    torch.testing.assert_close(second, scores_of(merged, "full_lrp"))
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PromptEncoderConfig"])
def test_virtual_tokens_of_a_prompt_belong_to_no_stream(kind: str) -> None:
    more = {"encoder_hidden_size": 8} if kind == "PromptEncoderConfig" else {}
    model = adapted(kind, num_virtual_tokens=3, **more)
    inputs = tiny_inputs(bert())
    found = wf.explain(inputs, model, method="libragrad", target=1)
    torch.testing.assert_close(found.conservation, torch.ones(2).double(), atol=1e-8, rtol=0)
    assert "prefix" in found.sinks
    assert found.scores.shape == inputs["input_ids"].shape
    assert bool((found.scores[inputs["attention_mask"] == 0] == 0).all())


@pytest.mark.parametrize("method", [m for m in METHODS if m != "occlusion"])
def test_a_prompt_is_the_same_as_states_before_the_text(method: str) -> None:
    """The base model on (prompt, words) as embeddings has the same scores at the words."""
    model = adapted("PromptTuningConfig", num_virtual_tokens=3)
    inputs = {
        name: value[:, :5]  # both texts have five words: nothing is padded
        for name, value in tiny_inputs(bert()).items()
    }
    found = wf.explain(inputs, model, method=method, target=1)
    words = model.word_embeddings(inputs["input_ids"])
    states = torch.cat((model.get_prompt(batch_size=2), words), dim=1).detach()
    wanted = wf.explain({"inputs_embeds": states}, model.base_model, method=method, target=1)
    torch.testing.assert_close(found.scores, wanted.scores[:, 3:])


def test_prefix_tuning_books_its_values_as_constants() -> None:
    model = adapted("PrefixTuningConfig", num_virtual_tokens=3)
    inputs = tiny_inputs(bert())
    found = wf.explain(inputs, model, method="libragrad", target=1)
    torch.testing.assert_close(found.conservation, torch.ones(2).double(), atol=1e-8, rtol=0)
    assert "constant" in found.sinks
    with pytest.raises(ModelError, match="does not fit the 7 tokens"):
        wf.explain(inputs, model, method="gae", target=1)


def test_prompts_of_a_language_model_are_refused() -> None:
    peft = package("peft")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    model = peft.get_peft_model(tiny_models()["gpt2"][1](), config)
    with pytest.raises(ModelError, match="PROMPT_TUNING puts 3 virtual tokens"):
        load_model(model)


# -- weights that accelerate loads ----------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_weights_that_are_offloaded(method: str, tmp_path: Path) -> None:
    accelerate = package("accelerate")
    wanted = scores_of(bert(), method)
    on_cpu, on_disk, dispatched = bert(), bert(), bert()
    accelerate.cpu_offload(on_cpu, execution_device="cpu")
    accelerate.disk_offload(on_disk, str(tmp_path), execution_device="cpu")
    accelerate.dispatch_model(
        dispatched, device_map={"": "cpu"}, main_device="cpu", force_hooks=True
    )
    for model in (on_cpu, on_disk, dispatched):
        assert torch.equal(scores_of(model, method), wanted)
    assert all(p.is_meta and isinstance(p, nn.Parameter) for p in on_cpu.parameters())


def test_weights_that_nothing_loads_are_missing() -> None:
    accelerate = package("accelerate")
    model = bert()
    accelerate.cpu_offload(model.bert, execution_device="cpu")
    model.classifier.to("meta")
    with pytest.raises(ModelError, match=r"no weights yet: 'classifier\.weight'"):
        scores_of(model, "libragrad")


# -- arguments of explain -------------------------------------------------------------------------


def test_other_names_of_the_processor(
    bert: nn.Module, wordpiece: Any, vit: Any, picture: Path
) -> None:
    images = transformers.ViTImageProcessorPil(size={"height": 8, "width": 8})
    text = wf.explain("a film", bert, tokenizer=wordpiece)
    assert torch.equal(text.scores, wf.explain("a film", bert, processor=wordpiece).scores)
    image = wf.explain(picture, vit, image_processor=images)
    assert torch.equal(image.scores, wf.explain(picture, vit, processor=images).scores)
    with pytest.raises(InputError, match="processor= was passed together with"):
        wf.explain("a film", bert, processor=wordpiece, tokenizer=wordpiece)
    with pytest.raises(InputError, match="tokenizer= is of type ViTImageProcessorPil"):
        wf.explain("a film", bert, tokenizer=images)


def test_the_precision_of_a_loaded_model() -> None:
    found = wf.explain("a film", dtype="float64", device="cpu")
    assert found.provenance["dtype"] == "float64"
    assert wf.explain("a film").provenance["dtype"] == "float32"  # the shared one is as before
    (one,) = wf.explain(iter(["a film"]), dtype=torch.float64)
    torch.testing.assert_close(one.scores, found.scores)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "int8"}, "dtype='int8' is no floating type"),
        ({"dtype": "float65"}, "dtype='float65' is no floating type"),
        ({"device": "nowhere"}, "device='nowhere' cannot be used"),
    ],
)
def test_placements_that_do_not_exist(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        wf.explain("a film", **settings)


def test_a_module_of_the_user_is_not_moved(bert: nn.Module, wordpiece: Any) -> None:
    with pytest.raises(OptionError, match=r"dtype= moves models that whyformer loads"):
        wf.explain("a film", bert, tokenizer=wordpiece, dtype="float64")
    assert next(bert.parameters()).dtype == torch.float32

"""Load a module, a bundled name, a folder or a hub id, or raise an error that names the cause."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from whyformer.errors import InputError, ModelError
from whyformer.inputs.detect import kind_of
from whyformer.inputs.prepare import prepare
from whyformer.models import bundled, load
from whyformer.models.load import load_model
from whyformer.models.processors import stored_processor
from whyformer.models.quiet import quiet_loading

Build = Callable[..., nn.Module]


@pytest.fixture
def folder(tmp_path: Path, bert: Any, wordpiece: Any) -> Path:
    """A stored BERT classifier with its tokenizer."""
    with quiet_loading():
        bert.save_pretrained(tmp_path / "stored")
    wordpiece.save_pretrained(tmp_path / "stored")
    return tmp_path / "stored"


@pytest.fixture
def bundled_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bert: Any, wordpiece: Any, vit: Any
) -> Path:
    """A folder of bundled models: sst2 in half precision, and mnist with an image processor."""
    processor = transformers.ViTImageProcessorPil(size={"height": 8, "width": 8})
    with quiet_loading():
        bert.half().save_pretrained(tmp_path / "sst2")
        vit.save_pretrained(tmp_path / "mnist")
    wordpiece.save_pretrained(tmp_path / "sst2")
    processor.save_pretrained(tmp_path / "mnist")
    for name, stream in (("sst2", "text"), ("mnist", "image")):
        facts = {"name": name, "title": name, "task": "t", "stream": stream, "licence": "l"}
        facts |= {"accuracy": 0.9, "metric": "m", "samples": "samples.json"}
        (tmp_path / name / "bundled.json").write_text(json.dumps(facts))
    monkeypatch.setattr(bundled, "ROOT", tmp_path)
    monkeypatch.setattr(load, "_bundled", {})
    return tmp_path


def test_a_module_comes_back_as_it_is(bert: nn.Module, wordpiece: Any) -> None:
    bert.train()
    loaded = load_model(bert, wordpiece)
    assert loaded.module is bert
    assert bert.training
    assert loaded.processor is wordpiece
    assert loaded.name == "BertForSequenceClassification"


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder(folder: Path, bert: nn.Module, kind: type) -> None:
    loaded = load_model(kind(folder))
    assert type(loaded.module) is transformers.BertForSequenceClassification
    assert not loaded.module.training
    assert loaded.module.state_dict().keys() == bert.state_dict().keys()
    assert prepare("a film", loaded.module, loaded.processor).tokens == (
        ("[CLS]", "a", "film", "[SEP]"),
    )
    assert loaded.name == str(folder)


def test_the_users_processor_wins(folder: Path, byte_bpe: Any) -> None:
    assert load_model(folder, byte_bpe).processor is byte_bpe


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_folder_keeps_its_precision(tmp_path: Path, bert: Any, dtype: torch.dtype) -> None:
    with quiet_loading():
        bert.to(dtype).save_pretrained(tmp_path)
    assert next(load_model(tmp_path).module.parameters()).dtype == dtype


def test_a_sharded_folder(tmp_path: Path, bert: Any) -> None:
    with quiet_loading():
        bert.save_pretrained(tmp_path, max_shard_size="10KB")
    assert load_model(tmp_path).name == str(tmp_path)
    shard = sorted(tmp_path.glob("*.safetensors"))[-1]
    shard.unlink()
    with pytest.raises(ModelError, match=f"lacks {shard.name}"):
        load_model(tmp_path)


def test_a_base_model(tmp_path: Path, build: Build) -> None:
    with quiet_loading():
        build("BertModel").save_pretrained(tmp_path)  # type: ignore[operator]
    assert type(load_model(tmp_path).module) is transformers.BertModel


def test_a_module_finds_the_tokenizer_it_was_stored_with(folder: Path) -> None:
    with quiet_loading():
        module = transformers.BertForSequenceClassification.from_pretrained(folder)
    assert prepare("a film", module).tokens == (("[CLS]", "a", "film", "[SEP]"),)
    assert stored_processor(module) is stored_processor(module)


def test_a_processor_given_as_a_folder(folder: Path, bert: nn.Module) -> None:
    loaded = load_model(bert, folder)
    assert prepare("film", bert, loaded.processor).size == 1


def test_an_image_model_with_its_processor(bundled_root: Path, picture: Path) -> None:
    loaded = load_model(bundled_root / "mnist")
    assert prepare(picture, loaded.module, loaded.processor).grid == (2, 2)


def test_bundled_by_name_and_by_default(bundled_root: Path, picture: Path) -> None:
    named = load_model("sst2")
    assert named.name == "sst2"
    assert next(named.module.parameters()).dtype == torch.float32  # stored in half
    assert load_model(None, kind=kind_of(["a film", "good"])).module is named.module
    assert load_model(None, kind=kind_of(("a film", "good"))).module is named.module
    for inputs in (picture, str(picture), [picture]):
        assert load_model(None, kind=kind_of(inputs)).name == "mnist"


@pytest.mark.parametrize("question", [("what is it?", "s.png"), {"text": "a", "image": "s"}])
def test_text_with_an_image_has_a_default_of_its_own(bundled_root: Path, question: Any) -> None:
    with pytest.raises(ModelError, match=r"'lxmert_shapes', the default for text\+image"):
        load_model(None, kind=kind_of(question))
    (bundled_root / "mnist").rename(bundled_root / "lxmert_shapes")
    facts = json.loads((bundled_root / "lxmert_shapes" / "bundled.json").read_text())
    (bundled_root / "lxmert_shapes" / "bundled.json").write_text(
        json.dumps(facts | {"name": "lxmert_shapes", "stream": "text+image"})
    )
    assert load_model(None, kind=kind_of(question)).name == "lxmert_shapes"


def test_bundled_names_come_before_folders(
    bundled_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bundled_root.parent)
    (bundled_root.parent / "sst2").mkdir()
    assert load_model("sst2").name == "sst2"


def test_bundled_models_are_loaded_once_by_all_threads(bundled_root: Path) -> None:
    found: list[nn.Module] = []
    threads = [
        threading.Thread(target=lambda: found.append(load_model("sst2").module)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


@pytest.mark.parametrize("inputs", [{"input_ids": [[1]]}, torch.ones(1, 2)])
def test_tensors_have_no_default_model(inputs: Any) -> None:
    with pytest.raises(InputError, match=r"was given without a model.*Pass model="):
        load_model(None, kind=kind_of(inputs))


def test_nothing_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "ROOT", tmp_path)
    with pytest.raises(ModelError, match="'sst2', the default for text, is not installed"):
        load_model(None, kind="text")


def test_something_that_is_no_model() -> None:
    with pytest.raises(ModelError, match="model= is of type int"):
        load_model(3)


def test_a_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config\.json"):
        load_model(tmp_path)


def test_a_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"stored' has no weights: model\.safetensors is missing"):
        load_model(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_never_loaded(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"anything")
    with pytest.raises(ModelError, match=f"only {name}: pickled.*never loaded.*save_pretrained"):
        load_model(folder)


def test_a_head_that_would_be_random(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    kept = {key: value for key, value in weights.items() if not key.startswith("classifier")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lack classifier\.bias, classifier\.weight, which Bert"):
        load_model(folder)


def test_damaged_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(ModelError, match="stored' cannot be loaded"):
        load_model(folder)


def test_an_unknown_kind_of_model(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "unheard_of"}))
    with pytest.raises(ModelError, match=r"cannot be loaded: .*unheard_of"):
        load_model(folder)


def test_a_damaged_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"processor in folder .* cannot be loaded"):
        load_model(folder)


def test_a_name_that_is_nothing(bundled_root: Path) -> None:
    message = (
        r"there is no model 'sst3'; tried as a bundled model, a folder, the local cache \(.*\),"
        r" the Hugging Face hub \(.*\)\. Did you mean 'sst2'\? Bundled: mnist, sst2\."
    )
    with pytest.raises(ModelError, match=message):
        load_model("sst3")


def test_a_folder_that_is_not_there(bundled_root: Path) -> None:
    with pytest.raises(ModelError, match=r"'\./no where'; tried as a bundled model, a folder\."):
        load_model("./no where")


def test_a_hub_id_is_looked_up_here_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wordpiece: Any
) -> None:
    asked: list[tuple[str, bool]] = []
    real = load._from_pretrained

    def fake(source: str, **options: Any) -> nn.Module:
        asked.append((source, options["local_files_only"]))
        if options["local_files_only"]:
            raise OSError("not in the cache")
        return real(str(folder), dtype="auto", local_files_only=True)

    monkeypatch.setattr(load, "_from_pretrained", fake)
    monkeypatch.setattr(load, "_is_hub_reachable", lambda: True)
    monkeypatch.setattr(load, "cached_processor", lambda name, module, local: wordpiece)
    loaded = load_model("someone/bert")
    assert asked == [("someone/bert", True), ("someone/bert", False)]
    assert loaded.processor is wordpiece
    assert loaded.name == "someone/bert"


def test_transformers_logs_again_afterwards(folder: Path, capsys: Any) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_model(folder)
    with pytest.raises(ModelError):
        load_model("no/such-model")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Dinov2ForImageClassification", {"image_size": 8, "patch_size": 4}),
        ("BeitForImageClassification", {"image_size": 8, "patch_size": 4}),
        ("DeiTForImageClassificationWithTeacher", {"image_size": 8, "patch_size": 4}),
        ("GPT2LMHeadModel", {}),
        ("ModernBertForMaskedLM", {"pad_token_id": 0}),
        ("DebertaV2ForSequenceClassification", {}),
        ("LlamaForCausalLM", {"num_key_value_heads": 2}),
    ],
)
def test_nothing_is_missing_from_what_was_stored(
    tmp_path: Path, build: Build, name: str, settings: dict[str, Any]
) -> None:
    with quiet_loading():
        build(name, **settings).save_pretrained(tmp_path)  # type: ignore[operator]
    assert type(load_model(tmp_path).module).__name__ == name

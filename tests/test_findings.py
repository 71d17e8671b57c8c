"""Findings of the robustness review, each as a test.

Those that failed on the code before are marked with the commit: `f9a6b34` still had the fault,
`before f9a6b34` means that this commit had mended it. Others stand beside what they test: batches
against single inputs in tests/methods, versions in tests/evaluation, the explorer in
tests/explorer, terminal escapes in tests/cli.
"""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

import whyformer as wf
from tests.untouched import used_model
from whyformer.cli.app import application
from whyformer.engine.rules.ledger import Place, sum_by_account
from whyformer.errors import ModelError, TrustError
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs


class Interrupted(BaseException):
    """Stands for KeyboardInterrupt."""


# -- 1. interrupts (f9a6b34): tests/engine/test_interrupts.py tries them at every moment -----------


def test_a_restoration_that_is_cut_off_bricks_no_thread() -> None:
    """Two interrupts: one in the model, one when the first training flag is restored."""

    class Flag(nn.Module):
        """A part that is interrupted when its flag is set."""

        armed = False

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "training" and value and Flag.armed:
                Flag.armed = False
                raise Interrupted
            super().__setattr__(name, value)

    model = used_model("bert")
    model.flag = Flag()
    model.train()
    inputs = tiny_inputs(model)

    def target(output: Any) -> torch.Tensor:
        Flag.armed = True
        raise Interrupted

    errors: list[BaseException] = []

    def work() -> None:
        try:
            with pytest.raises(Interrupted):
                wf.explain(inputs, model, target=target, method="gae")
            assert all(part.training for part in model.modules())
            wf.explain(inputs, model, target=1, method="gae")
            assert all(part.training for part in model.modules())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors, errors


# -- 2. scores that are no numbers (before f9a6b34; how they are drawn: f9a6b34) -------------------


class Overflow(nn.Module):
    """A finite output whose gradient is infinite."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.blocks = nn.ModuleList([layer])
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        logits = self.head(x.mean(1))
        return logits + (logits - logits.detach()).abs().sqrt()


def test_scores_that_are_no_numbers_are_told() -> None:
    torch.manual_seed(0)
    model, x = Overflow().eval(), torch.randn(1, 4, 8)
    with pytest.warns(wf.errors.TrustWarning):
        found = wf.explain(x, model, target=1, method="gradient_x_input")
    assert not found.scores.isfinite().all()
    (reason,) = [one for one in found.trust.reasons if one.kind == "values"]
    assert reason.level == "warning"
    assert "NaN or infinite" in reason.text
    with pytest.raises(TrustError, match="NaN or infinite"):
        wf.explain(x, model, target=1, method="gradient_x_input", strict=True)


# -- 7. pickled weights (before f9a6b34) -----------------------------------------------------------


def test_an_index_cannot_name_pickled_weights(tmp_path: Path) -> None:
    families["bert"].tiny().save_pretrained(tmp_path, max_shard_size="4KB")
    weights = dict.fromkeys(families["bert"].tiny().state_dict(), "w.bin")
    torch.save(families["bert"].tiny().state_dict(), tmp_path / "w.bin")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weights}), encoding="utf-8")
    with pytest.raises(ModelError, match=r"w\.bin"):
        wf.explain({"input_ids": torch.ones(1, 3, dtype=torch.long)}, str(tmp_path))


def test_code_in_a_model_folder_does_not_run(tmp_path: Path) -> None:
    families["bert"].tiny().save_pretrained(tmp_path)
    mark = tmp_path / "ran"
    code = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\nclass Evil: pass\n"
    (tmp_path / "evil.py").write_text(code, encoding="utf-8")
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    config |= {
        "model_type": "evil",
        "architectures": ["Evil"],
        "auto_map": {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError):
        wf.explain({"input_ids": torch.ones(1, 3, dtype=torch.long)}, str(tmp_path))
    assert not mark.exists()


# -- 8. small files, unbounded work ----------------------------------------------------------------


def test_an_attribution_with_a_billion_layers(tmp_path: Path) -> None:
    """Before f9a6b34. MNIST files: tests/datasets/test_foreign_errors.py."""
    file = tmp_path / "a.safetensors"
    wf.explain("a gripping film").save(file)
    with safe_open(str(file), "pt") as opened:
        facts = json.loads(opened.metadata()["whyformer"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    facts["layers"] = 10**9
    save_file(tensors, str(file), metadata={"whyformer": json.dumps(facts)})
    with pytest.raises(wf.errors.InputError):
        wf.load(file)


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": 10**9},
        {"num_labels": 10**9},
        {"text_config": {"num_hidden_layers": 10**9}},
        {"depths": [2, 10**9]},
    ],
)
def test_a_config_with_a_billion_layers(tmp_path: Path, change: dict[str, Any]) -> None:
    """f9a6b34: it hangs."""
    families["bert"].tiny().save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text("utf-8")), **change}), "utf-8")
    with pytest.raises(ModelError, match=r"config\.json states .* = 1,000,000,000"):
        wf.explain({"input_ids": torch.ones(1, 3, dtype=torch.long)}, str(tmp_path))


# -- 9. foreign errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m" * 5000, "a/" * 3000, "~nobody/x", "m\0x"])
def test_names_that_no_model_can_have(name: str) -> None:
    """f9a6b34: OSError."""
    with pytest.raises(ModelError, match="there is no model"):
        wf.explain("a film", name)
    ran = CliRunner().invoke(application(), ["explain", "a film", "--model", name])
    assert ran.exit_code != 0
    assert isinstance(ran.exception, SystemExit)


class Failing(nn.Module):
    """A model whose forward raises KeyError, at once or when a token is removed."""

    def __init__(self, removed_only: bool) -> None:
        super().__init__()
        self.removed_only = removed_only
        self.embed = nn.Embedding(20, 8)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)])
        self.head = nn.Linear(8, 2)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        if not self.removed_only or bool((input_ids == 0).any()) or input_ids.shape[1] < 4:
            raise KeyError("boom")
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


@pytest.mark.parametrize("method", ["libragrad", "occlusion"])
def test_a_model_that_raises_key_error(method: str) -> None:
    model = Failing(removed_only=False).eval()
    with pytest.raises(ModelError, match="KeyError: 'boom'"):
        wf.explain({"input_ids": torch.ones(1, 4, dtype=torch.long)}, model, method=method)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    """f9a6b34: a pipe as an image was called a folder."""
    path = {"pipe": tmp_path / "pipe", "device": Path(os.devnull), "folder": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(wf.errors.InputError, match="folder" if kind == "folder" else "pipe or a"):
        wf.explain(path, "mnist")
    with pytest.raises(wf.errors.InputError):
        wf.load(path)
    with pytest.raises(ModelError):
        wf.explain("a film", str(path))


def test_nan_is_no_share() -> None:
    """A word without a score has no place on the scale."""
    from whyformer.render.panels import TextPanel, Word

    panel = TextPanel("text", (Word("film", math.nan),), 1.0, signed=True)
    assert panel.share(panel.words[0]) == 0
    assert "1 of 1 words (purple)" in panel.note


def test_sinks_on_several_devices_are_added() -> None:
    """f9a6b34: an error of torch. The meta device stands for a second one."""
    bookings = {
        ("bias", None): torch.ones(2, device="meta"),
        ("bias", Place("text", 0, 4)): torch.ones(2),
    }
    assert sum_by_account(bookings)["bias"].device.type == "meta"


def test_a_full_disk_when_an_attribution_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an error of safetensors."""

    def full(*_: Any, **__: Any) -> None:
        raise SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )

    monkeypatch.setattr("whyformer.attribution.storage.save_file", full)
    with pytest.raises(wf.errors.InputError, match=r"a\.st': No space left on device"):
        wf.explain("a gripping film").save(tmp_path / "a.st")

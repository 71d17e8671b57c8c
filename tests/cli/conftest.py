"""The command line under test, with `explain` replaced by one that answers at once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

import whyformer
from whyformer.attribution import Attribution, Stream
from whyformer.cli.app import application
from whyformer.errors import WhyformerError
from whyformer.models.load import Loaded
from whyformer.pipeline.explain_each import Answer, Ask

Run = Callable[..., Result]


@dataclass
class FakeExplain:
    """What `explain` was called with, call by call, and what it does instead of explaining."""

    calls: list[tuple[Any, Any, dict[str, Any]]] = field(default_factory=list)
    instead: Callable[[str], None] = lambda method: None

    @property
    def inputs(self) -> Any:
        return self.calls[-1][0]

    @property
    def keywords(self) -> dict[str, Any]:
        return self.calls[-1][2]


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The models that were loaded, none of them for real."""
    loaded: list[Any] = []

    def load(
        model: Any, processor: Any, kind: Any, device: Any = None, dtype: Any = None
    ) -> Loaded:
        loaded.append(model)
        return Loaded("module", "processor", model or "its name")  # type: ignore[arg-type]

    monkeypatch.setattr("whyformer.cli.command_inputs.load_model", load)
    return loaded


@pytest.fixture
def fake_explain(monkeypatch: pytest.MonkeyPatch, loads: list[Any]) -> FakeExplain:
    """A record of the calls of `whyformer.explain`, which answers with two words."""
    record = FakeExplain()

    def explain(inputs: Any, model: Any = None, **keywords: Any) -> Attribution:
        record.calls.append((inputs, model, keywords))
        record.instead(keywords["method"])
        stream = Stream(
            "text",
            torch.tensor([[0.75, -0.5]]),
            torch.ones(1, 2, dtype=torch.bool),
            (("good", "bad"),),
            ((0, 1),),
        )
        return Attribution(
            method=keywords["method"],
            streams={"text": stream},
            main="text",
            target=torch.tensor([1]),
            output=torch.tensor([2.0]),
            labels=("positive",),
            provenance={"model": model.name},
        )

    def explain_each(
        inputs: Any, model: Any, asks: Iterable[Ask], on_error: str = "raise", **keywords: Any
    ) -> Iterator[Answer]:
        for ask in asks:
            found, error = None, None
            try:
                # Through the package, so that a test can replace `explain` once more.
                found = whyformer.explain(
                    inputs, model, method=ask.method, target=ask.target, **keywords
                )
            except WhyformerError as failure:
                if on_error == "raise":
                    raise
                error = failure
            yield Answer(ask, found, error, 0.0)

    monkeypatch.setattr(whyformer, "explain", explain)
    monkeypatch.setattr("whyformer.cli.compare.explain_each", explain_each)
    return record


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing; transformers is neither imported nor silenced for the rest of the session."""
    monkeypatch.setattr("whyformer.cli.console.silence_transformers", lambda: None)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `whyformer` with a line of arguments, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run_line(line: str, stdin: str | bytes | None = None, width: int = 200) -> Result:
        # Wide, so that no sentence is broken where a test looks for it.
        return CliRunner(env={"COLUMNS": str(width)}).invoke(
            application(), shlex.split(line), input=stdin, prog_name="whyformer"
        )

    return run_line

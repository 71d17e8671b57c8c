"""Progress events: shown one by one, and the last event is the result."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from whyformer.batching.progress import Progress
from whyformer.cli.progress import show_progress


def test_the_last_event_is_the_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyformer.cli.progress.silence_transformers", lambda: None)

    def work() -> Iterator[Progress | str]:
        yield Progress("reading", 0, 0, part="BACE")
        yield Progress("training", 1, 2, part="BACE")
        yield "result"

    assert show_progress(work()) == "result"
    assert capsys.readouterr().err.splitlines() == ["BACE: ...", "BACE: 50 %"]

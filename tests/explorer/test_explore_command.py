from __future__ import annotations

import socket
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from whyformer.cli.app import application


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that a browser was sent to; the server itself ends at once."""
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", seen.append)
    monkeypatch.setattr("whyformer.explorer.serve.load_first_model", lambda explorer: None)

    def interrupted(self: Any) -> None:
        self.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("whyformer.explorer.serve.ExplorerServer.run", interrupted)
    return seen


def explore(*arguments: str) -> Result:
    return CliRunner().invoke(application(), ["explore", *arguments])


def test_it_says_where_it_is_and_opens_a_browser_there(opened: list[str]) -> None:
    done = explore("--port", "0")
    assert done.exit_code == 130  # Ctrl+C
    (url,) = opened
    assert url.startswith("http://127.0.0.1:")
    assert url in done.stdout
    assert "password" not in done.stderr


def test_no_browser(opened: list[str]) -> None:
    explore("--port", "0", "--no-browser")
    assert not opened


def test_another_address_is_warned_about(opened: list[str]) -> None:
    done = explore("--port", "0", "--host", "0.0.0.0")
    assert "there is no password" in done.stderr
    assert opened[0].startswith("http://127.0.0.1:")


def test_a_port_that_is_taken_is_one_sentence(opened: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = explore("--port", str(taken.getsockname()[1]))
    assert done.exit_code == 2
    assert "Choose another --port" in done.stderr


def test_a_model_that_is_not_there_is_one_sentence(opened: list[str]) -> None:
    done = explore("--model", "./nowhere")
    assert done.exit_code == 2
    assert "there is no model './nowhere'" in done.stderr
    assert not opened


def test_help_has_examples() -> None:
    assert "whyformer explore --port 8000" in " ".join(explore("--help").stdout.split())


def test_a_missing_extra_is_one_sentence(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyformer.explorer.requirements.find_spec", lambda name: None)
    done = explore("--port", "0")
    assert done.exit_code == 2
    assert "the explorer needs starlette and uvicorn" in " ".join(done.stderr.split())
    assert "pip install 'whyformer[explore]'" in " ".join(done.stderr.split())

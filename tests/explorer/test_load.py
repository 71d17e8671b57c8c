"""Load for a few seconds; benchmarks/explorer_load.py does it for a minute, and measures."""

from __future__ import annotations

import pytest

from benchmarks.explorer_load import Recorder, crowd, drip, flood, visit
from tests.explorer.conftest import Client


@pytest.mark.slow
def test_twenty_users_are_all_answered(client: Client) -> None:
    recorder = Recorder(client.place)
    crowd(recorder, users=20, seconds=6.0)
    assert recorder.scene.failures == []
    assert recorder.scene.refused == 0
    assert len(recorder.scene.seconds) >= 20
    assert recorder.scene.limited > 0
    assert client.explorer.results.size <= client.explorer.limits.kept


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flood", "drip"])
def test_visitors_are_answered_under_attack(client: Client, kind: str) -> None:
    recorder = Recorder(client.place)
    scene = recorder.scene
    attack = (
        flood(client.place, scene, 20)
        if kind == "flood"
        else drip(client.place, scene, b"GET / HTTP/1.1\r\nX-", 1.0)
    )
    with attack:
        visit(recorder, 5.0, rate=1.0)
    assert scene.failures == []
    assert scene.refused == 0
    assert scene.seconds
    assert scene.others

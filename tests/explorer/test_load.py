"""Twenty users at once, for a few seconds; the benchmark itself does it for a minute."""

from __future__ import annotations

import pytest

from benchmarks.explorer_load import load
from tests.explorer.conftest import Client


@pytest.mark.slow
def test_twenty_users_are_served_or_refused_politely(client: Client) -> None:
    told = load(client.place, users=20, seconds=5.0)
    assert told.failures == []
    assert told.answered > 0
    assert told.refused > 0  # more ask than there is room for
    assert told.limited > 0
    assert client.explorer.results.size <= client.explorer.limits.kept

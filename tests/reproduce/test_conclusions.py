"""The cross-task table: its numbers, its names, and parts that were not run."""

from __future__ import annotations

import torch

from tests.reproduce.test_table import part, run
from whyformer.reproduce.conclusions import draw_conclusions
from whyformer.reproduce.reproduce import Outcome
from whyformer.statistics.bootstrap import Bootstrap

FEW = Bootstrap(draws=2000)


def values(mean: float, seed: int) -> list[float]:
    generator = torch.Generator().manual_seed(seed)
    return (mean + 0.1 * torch.randn(30, generator=generator)).tolist()


def outcome(name: str, **means: float) -> Outcome:
    by_row = {label: values(mean, seed) for seed, (label, mean) in enumerate(means.items())}
    return Outcome(part(name, title=f"{name} (a | remark)"), run({("auac", "predicted"): by_row}))


def test_the_tables_say_who_is_beaten_where_and_by_whom() -> None:
    outcomes = [
        outcome("SST-2", GAE=0.9, LRP=0.9, Random=0.3),
        outcome("pets", GAE=0.9, LRP=0.5, Random=0.3),
        Outcome(part("gone"), missing="there is no folder"),
    ]
    found = draw_conclusions(outcomes, FEW)
    assert [task.task for task in found.tasks] == ["SST-2", "pets"]
    assert [row.method for row in found.standings] == ["GAE", "LRP", "Random"]
    table = found.markdown()
    assert "| GAE | 2 | 0 |  | " in table
    assert "| LRP | 2 | 1 (pets) | GAE: 1 (pets) |" in table
    assert (
        "| Random | 2 | 2 (SST-2, pets) | GAE: 2 (SST-2, pets) | 0 of 2 | 0 of 2 | 3.0 |" in table
    )
    assert "| pets | auac ↑ | 30 | GAE 0.889 | none | 2 of 2 |" in table
    assert "2000 draws" in table


def test_conservation_decides_nothing_because_some_methods_do_not_have_it() -> None:
    by_row = {"GAE": values(0.9, 0), "LRP": values(0.3, 1)}
    results = run({("auac", "predicted"): by_row, ("conservation", "predicted"): by_row})
    found = draw_conclusions([Outcome(part("one"), results)], FEW)
    assert [one.metric for one in found.tasks[0].measures] == ["auac"]


def test_nothing_to_compare_is_said() -> None:
    found = draw_conclusions([Outcome(part("gone"), missing="there is no folder")], FEW)
    assert found.tasks == ()
    assert "No part has two methods" in found.markdown()

"""The table: ours with an interval, the paper's beside, and everything that differs by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from whyformer.evaluation.plan import MethodSpec
from whyformer.evaluation.results import Results
from whyformer.reproduce.experiment import Experiment, ExperimentPart
from whyformer.reproduce.reproduce import Outcome
from whyformer.reproduce.table import markdown

Values = Mapping[str, Sequence[float]]  # by row, a value per sample
ROWS = ("Random", "GAE", "LRP", "GI")


def part(name: str = "one", **more: Any) -> ExperimentPart:
    facts: dict[str, Any] = {
        "name": name,
        "title": f"The {name}",
        "model": name,
        "data": "",
        "split": None,
        "rows": tuple(MethodSpec(label, "gae") for label in ROWS),
        "measures": (),
        "targets": ("predicted",),
        "fill": None,
    }
    return ExperimentPart(**{**facts, **more})


def run(
    values: Mapping[tuple[str, str], Values],
    convention: str = "taken by hand",
    better: str = "higher",
    steps: Sequence[float] | None = None,
    curves: Mapping[str, Sequence[float]] | None = None,
) -> Results:
    """A run of values by (metric, target), row and sample."""
    rows = [
        {
            "method": label,
            "target": target,
            "metric": metric,
            "sample": f"s{i}",
            "value": value,
            "curve": None if curves is None else list(curves[label]),
            "found": None,
            "there": None,
        }
        for (metric, target), by_row in values.items()
        for label, found in by_row.items()
        for i, value in enumerate(found)
    ]
    known = {"convention": convention, "better": better, "steps": steps}
    count = len({row["sample"] for row in rows})
    settings = {"metrics": {metric: known for metric, _ in values}, "data": {"samples": count}}
    return Results(rows, settings)


def paper(*parts: ExperimentPart, **more: Any) -> Experiment:
    return Experiment("trial2026", "Nobody: A paper", parts, **more)


def test_all_of_it_by_hand() -> None:
    """Every sample has the same value, so that the interval is that value too."""
    one = part(published={"auac": {"GAE": 0.5, "GI": 0.25}}, notes=("no real data",))
    other = part("other")
    values = {"Random": [0.25, 0.25], "GAE": [0.75, 0.75]}
    outcomes = [
        Outcome(
            one,
            run({("auac", "predicted"): values}),
            0.875,
            "tiny",
            differences=("no real data", "learned from 3"),
        ),
        Outcome(other, missing="the data folder has no other"),
    ]
    experiment = paper(one, other, notes=("another model",), missing=("SEMAINE (not public)",))
    assert markdown(experiment, outcomes) == (
        "## trial2026\n"
        "\n"
        "Nobody: A paper.\n"
        "\n"
        "**auac** ↑\n"
        "\n"
        "| method | The one | paper |\n"
        "| --- | --- | --- |\n"
        "| Random | 0.250 [0.250, 0.250] |  |\n"
        "| GAE | 0.750 [0.750, 0.750] | 0.500 |\n"
        "\n"
        "Taken by hand. 95 % bootstrap intervals over samples.\n"
        "\n"
        "Differences from the paper:\n"
        "\n"
        "- another model\n"
        "- The one: 2 samples, model tiny (accuracy 87.5 %); no real data; learned from 3\n"
        "\n"
        "Not run:\n"
        "\n"
        "- The other: the data folder has no other\n"
        "- SEMAINE (not public)\n"
    )


def test_the_interval_is_of_the_samples() -> None:
    values = {"GAE": [0.0, 1.0] * 50}
    (line,) = lines_of(
        paper(part()), [Outcome(part(), run({("auac", "predicted"): values}))], "GAE"
    )
    mean, low, high = (float(word.strip("[],")) for word in line.split("|")[2].split())
    assert mean == 0.5
    # 1.96 standard errors of a fair coin thrown a hundred times: 0.098.
    assert low == pytest.approx(0.402, abs=0.02)
    assert high == pytest.approx(0.598, abs=0.02)


def lines_of(experiment: Experiment, outcomes: list[Outcome], label: str) -> list[str]:
    return [
        line for line in markdown(experiment, outcomes).split("\n") if line.startswith(f"| {label}")
    ]


def test_parts_stand_beside_each_other() -> None:
    one = part(published={"auac": {"GAE": 0.5}})
    other = part("other", rows=(MethodSpec("GAE", "gae"), MethodSpec("New", "gae")))
    outcomes = [
        Outcome(one, run({("auac", "predicted"): {"GAE": [1.0]}})),
        Outcome(other, run({("auac", "predicted"): {"GAE": [0.0], "New": [0.125]}})),
    ]
    table = markdown(paper(one, other), outcomes)
    assert "| method | The one | paper | The other |" in table
    assert "| GAE | 1.000 [1.000, 1.000] | 0.500 | 0.000 [0.000, 0.000] |" in table
    assert "| New |  |  | 0.125 [0.125, 0.125] |" in table
    assert table.count("Taken by hand.") == 1  # by both alike
    narrow = markdown(paper(one, other), outcomes, across=1)
    assert "| method | The one | paper |\n" in narrow
    assert "| method | The other |\n" in narrow
    assert narrow.count("Taken by hand.") == 1


def test_conventions_that_differ_are_all_told() -> None:
    one, other = part(), part("other")
    outcomes = [
        Outcome(one, run({("auac", "predicted"): {"GAE": [1.0]}}, "filled: unknown.")),
        Outcome(other, run({("auac", "predicted"): {"GAE": [1.0]}}, "filled: black")),
    ]
    table = markdown(paper(one, other), outcomes)
    message = "- The one: filled: unknown.\n- The other: filled: black.\n\n95 % bootstrap intervals"
    assert message in table


def test_figures_of_one_class_stand_beside_no_other() -> None:
    one = part(targets=("predicted", "label"), published={"auac, predicted": {"GAE": 0.5}})
    values = {("auac", target): {"GAE": [0.25]} for target in one.targets}
    table = markdown(paper(one), [Outcome(one, run(values))])
    assert "| method | The one, predicted class | paper | The one, true class |" in table
    assert "| GAE | 0.250 [0.250, 0.250] | 0.500 | 0.250 [0.250, 0.250] |" in table


@pytest.mark.parametrize(
    ("ours", "rank"),
    [
        ((0.1, 0.2, 0.3, 0.4), "1.00"),
        ((0.4, 0.3, 0.2, 0.1), "\N{MINUS SIGN}1.00"),
        ((0.2, 0.1, 0.3, 0.4), "0.80"),  # 1 - 6 * 2 / (4 * 15)
        ((0.3, 0.3, 0.3, 0.3), "0.00"),
    ],
)
def test_the_rank_correlation(ours: tuple[float, ...], rank: str) -> None:
    published = {"auac": dict(zip(ROWS, (0.5, 0.6, 0.7, 0.8), strict=True))}
    one = part(published=published)
    values = {label: [value] for label, value in zip(ROWS, ours, strict=True)}
    table = markdown(paper(one), [Outcome(one, run({("auac", "predicted"): values}))])
    told = "Rank correlation of our order of the methods with the paper's: The one"
    assert f"\n\n{told} {rank}.\n" in table


def test_ranks_are_of_what_both_have() -> None:
    one = part(published={"auac": {"GAE": 0.5, "LRP": 0.6, "GI": 0.7}})
    two = {"Random": [0.9], "GAE": [0.1], "LRP": [0.2], "GI": [math.nan]}
    table = markdown(paper(one), [Outcome(one, run({("auac", "predicted"): two}))])
    assert "Rank correlation" not in table  # two rows have no order to speak of
    three = {**two, "GI": [0.05]}
    table = markdown(paper(one), [Outcome(one, run({("auac", "predicted"): three}))])
    assert "The one \N{MINUS SIGN}0.50." in table


def test_what_has_no_value_is_a_dash() -> None:
    values = {"Random": [math.nan, math.nan], "GAE": [-0.5, -0.5]}
    table = markdown(paper(part()), [Outcome(part(), run({("auac", "predicted"): values}))])
    assert "| Random | – |" in table
    assert "| GAE | \N{MINUS SIGN}0.500 [\N{MINUS SIGN}0.500, \N{MINUS SIGN}0.500] |" in table


def test_areas_in_per_cent_have_two_decimals_on_both_sides() -> None:
    one = part(published={"area": {"GAE": 54.16, "GI": 7.0}})
    values = {"GAE": [50.0, 50.0], "GI": [12.25, 12.25]}
    table = markdown(paper(one), [Outcome(one, run({("area", "predicted"): values}))])
    assert "| GAE | 50.00 [50.00, 50.00] | 54.16 |" in table
    assert "| GI | 12.25 [12.25, 12.25] | 7.00 |" in table


def test_no_way_is_better_without_an_arrow() -> None:
    run_of = run({("conservation", "predicted"): {"GAE": [1.0]}}, better="neither")
    assert "**conservation**\n" in markdown(paper(part()), [Outcome(part(), run_of)])
    run_of = run({("au_mse", "predicted"): {"GAE": [1.0]}}, better="lower")
    assert "**au_mse** ↓\n" in markdown(paper(part()), [Outcome(part(), run_of)])


def test_signs_of_tables_are_escaped() -> None:
    odd = part(title="A|B <i>", rows=(MethodSpec("x|y", "gae"),))
    values = {("auac", "predicted"): {"x|y": [1.0]}}
    table = markdown(
        paper(odd, part("other")),
        [
            Outcome(odd, run(values, "a|b"), model="*m*", differences=("1 | 2",)),
            Outcome(part("other"), missing="no <b>file</b> in a|b"),
        ],
    )
    assert "| method | A\\|B &lt;i&gt; |" in table
    assert "| x\\|y | 1.000 [1.000, 1.000] |" in table
    assert "A\\|b. 95 %" in table
    assert "model \\*m\\*; 1 \\| 2" in table
    assert "no &lt;b&gt;file&lt;/b&gt; in a\\|b" in table


def test_token_f1_at_every_k() -> None:
    values = {("token_f1", "predicted"): {"GAE": [0.25, 0.25]}}
    run_of = run(values, steps=[10.0, 20.0], curves={"GAE": [0.125, 0.375]})
    table = markdown(paper(part()), [Outcome(part(), run_of)])
    head = "The one, predicted class, by the number of words k:"
    grid = "| method | k = 10 | k = 20 |\n| --- | --- | --- |\n| GAE | 0.125 | 0.375 |"
    assert f"{head}\n\n{grid}\n\n" in table


def test_nothing_done_is_said_too() -> None:
    table = markdown(paper(part()), [Outcome(part(), missing="there is no one")])
    assert table.endswith("Not run:\n\n- The one: there is no one\n")
    assert "|" not in table

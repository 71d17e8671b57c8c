"""Means, ranks and intervals computed by hand; Markdown and terminal tables of any names."""

from __future__ import annotations

import math
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console
from torch import tensor

from tests.evaluation.conftest import known, row
from whyformer.errors import OptionError
from whyformer.evaluation.agreement_matrix import agreement_matrix, split_agreement
from whyformer.evaluation.formatting import MINUS, decimals_for, number_text
from whyformer.evaluation.results import ResultKey, Results
from whyformer.evaluation.summary import MetricSummary
from whyformer.evaluation.tables import escape_markdown, markdown, summary, terminal_tables
from whyformer.metrics import interval
from whyformer.statistics.bootstrap import Bootstrap

Make = Callable[..., Results]
HOSTILE = "<b>|x|</b> `*_a_*` [l](javascript:1)\n# ~~x~~ \\| ![i](x) &amp; \x1b[31m\u202e"


def only(figures: list[MetricSummary]) -> MetricSummary:
    (figure,) = figures
    return figure


# -- summary ---------------------------------------------------------------------------------


def test_means_ranks_and_leader_by_hand(tiny: Make) -> None:
    figure = only(summary(tiny({"m": {"a": [0.2, 0.4], "b": [0.5, 0.9], "c": [0.9, 0.5]}})))
    assert [r.method for r in figure.rows] == ["a", "b", "c"]
    assert [r.mean for r in figure.rows] == pytest.approx([0.3, 0.7, 0.7])
    assert [r.rank for r in figure.rows] == [3, 1, 1]  # equal means share a rank
    assert [r.best for r in figure.rows] == [False, True, True]
    assert figure.leader is figure.rows[1]
    assert [r.n for r in figure.rows] == [2, 2, 2]
    assert figure.ends == pytest.approx((0.2, 0.9))


def test_lower_may_be_better_and_neither_has_no_best(tiny: Make) -> None:
    values = {"m": {"a": [0.2, 0.4], "b": [0.5, 0.9]}}
    lower = only(summary(tiny(values, {"m": known("lower")})))
    assert [r.rank for r in lower.rows] == [1, 2]
    neither = only(summary(tiny(values, {"m": known("neither")})))
    assert [r.rank for r in neither.rows] == [None, None]
    assert neither.leader is None
    assert all(r.apart is None and math.isfinite(r.low) for r in neither.rows)


def test_the_interval_is_the_quantiles_of_all_redraws() -> None:
    # Two samples, 0 and 1, are redrawn as 00, 01, 10 or 11: a quarter of the means is 0, half of
    # them 0.5, a quarter 1. So 40 % of them lie at 0.5, and 60 % between 0 and 1.
    rows = [row("a", "m", f"s{i}", float(i)) for i in range(2)]
    figure = only(summary(Results(rows, {"metrics": {"m": known()}}), 0.4, 4000, 1))
    assert (figure.rows[0].low, figure.rows[0].high) == pytest.approx((0.5, 0.5))
    wide = only(summary(Results(rows, {"metrics": {"m": known()}}), 0.6, 4000, 1)).rows[0]
    assert (wide.low, wide.high) == pytest.approx((0, 1))


def test_intervals_are_those_of_the_metrics_own_bootstrap(run: Make) -> None:
    results = run(samples=25, draws=300)
    for figure in summary(results):
        for found in figure.rows:
            score = results.score(ResultKey(found.method, figure.target, figure.metric))
            assert score is not None
            expected = interval(score, level=0.95, draws=300, seed=0)
            assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)
            assert found.mean == pytest.approx(score.mean, abs=1e-12)


def test_paired_differences_tell_what_overlapping_intervals_do_not(tiny: Make) -> None:
    hard = [i / 20 for i in range(20)]
    values = {
        "best": [h + 0.02 for h in hard],
        "worse everywhere": [h + 0.01 * (i % 2) for i, h in enumerate(hard)],
        "worse by chance": [h + (0.5 if i % 2 else -0.5) for i, h in enumerate(hard)],
    }
    figure = only(summary(tiny({"m": values})))
    best, everywhere, chance = figure.rows
    assert best.low < everywhere.high  # the intervals overlap ...
    assert everywhere.apart is True  # ... but one is better on every sample
    assert everywhere.alike is False
    assert chance.apart is False
    assert chance.alike
    assert best.apart is None


def test_methods_that_miss_samples_are_compared_on_those_they_share() -> None:
    full = [row("full", "m", f"s{i}", 0.5 + 0.01 * i) for i in range(10)]
    # Less on every sample that it has, in another order; its mean is of four.
    part = [row("part", "m", f"s{i}", 0.49 + 0.01 * i) for i in (3, 1, 0, 2)]
    lone = [row("lone", "m", "s99", 0.1)]
    figure = only(summary(Results([*full, *part, *lone], {"metrics": {"m": known()}})))
    assert [r.n for r in figure.rows] == [10, 4, 1]
    assert figure.by_method["part"].apart is True
    assert figure.by_method["lone"].apart is None  # no common samples


def test_shares_are_summed_and_what_does_not_count_is_left_out() -> None:
    shares = {"a": [(1.0, 2.0), (0.0, 6.0), (0.0, 0.0)], "b": [(2.0, 2.0), (5.0, 6.0), (0.0, 0.0)]}
    rows = [
        row(m, "m", f"s{i}", found / there if there else 0.0, found=[found], there=[there])
        for m, pairs in shares.items()
        for i, (found, there) in enumerate(pairs)
    ]
    figure = only(summary(Results(rows, {"metrics": {"m": known()}})))
    assert [r.mean for r in figure.rows] == pytest.approx([1 / 8, 7 / 8])  # not of the values
    assert [r.n for r in figure.rows] == [2, 2]
    assert figure.rows[0].apart is True


def test_where_nothing_counts_there_is_no_number() -> None:
    rows = [
        *(row("a", "m", f"s{i}", 0.0, found=[0.0], there=[0.0]) for i in range(3)),
        *(row("b", "m", f"s{i}", 0.5, found=[1.0], there=[2.0]) for i in range(3)),
    ]
    results = Results(rows, {"metrics": {"m": known()}})
    figure = only(summary(results))
    assert math.isnan(figure.rows[0].mean)
    assert [r.rank for r in figure.rows] == [None, 1]
    assert figure.rows[0].n == 0
    assert figure.rows[0].apart is None
    assert "| a | – |" in markdown(results)


def test_one_sample_has_a_mean_and_no_interval(tiny: Make) -> None:
    figure = only(summary(tiny({"m": {"a": [0.2], "b": [0.3]}})))
    assert all(math.isnan(r.low) and math.isnan(r.high) for r in figure.rows)
    assert [r.rank for r in figure.rows] == [2, 1]
    assert [r.apart for r in figure.rows] == [None, None]
    assert "| **0.300** |" in markdown(tiny({"m": {"a": [0.2], "b": [0.3]}}))


def test_settings_decide_unless_asked_otherwise(tiny: Make) -> None:
    values = {"m": {"a": [0.1, 0.5, 0.2, 0.9, 0.3, 0.7]}}
    results = tiny(values, bootstrap={"level": 0.5, "draws": 50, "seed": 3})
    assert only(summary(results)).how == Bootstrap(50, 3, 0.5)
    assert only(summary(results, level=0.9)).how == Bootstrap(50, 3, 0.9)
    assert only(summary(Results(results.rows, {}))).how == Bootstrap()
    for wrong in ({"level": 0.0}, {"level": 1.0}, {"draws": 0}):
        with pytest.raises(OptionError, match=r"level=|draws="):
            summary(results, **wrong)


# -- agreement -------------------------------------------------------------------------------


def test_agreement_measured_one_way_holds_both_ways() -> None:
    rows = [
        row("a", "agreement/b", "s0", 0.5),
        row("a", "agreement/c", "s0", -0.25),
        row("b", "agreement/c", "s0", 0.75),
        row("a", "agreement/a", "s0", 1.0),
    ]
    alone, agreeing = split_agreement(summary(Results(rows, {})), "predicted")
    assert not alone
    matrix = agreement_matrix(agreeing)
    assert matrix.names == ("a", "b", "c")
    means = [[None if r is None else r.mean for r in line] for line in matrix.rows]
    assert means == [[None, 0.5, -0.25], [0.5, None, 0.75], [-0.25, 0.75, None]]


# -- Markdown --------------------------------------------------------------------------------


def test_a_table_by_hand() -> None:
    rows = [
        *(row("a", "m", f"s{i}", 0.25) for i in range(3)),
        *(row("b", "m", f"s{i}", 0.75) for i in range(3)),
    ]
    settings = {
        "command": "whyformer evaluate",
        "model": {"name": "tiny", "family": "bert"},
        "data": {"source": "here", "samples": 3, "skipped": []},
        "metrics": {"m": known(steps=[0.0, 0.5, 1.0], options={"against": "label"})},
        "fill": "mask",
        "seed": 1,
        "versions": {"torch": "2.0"},
    }
    assert markdown(Results(rows, settings)) == (
        "# Evaluation of tiny\n\n"
        "## Explaining the predicted class\n\n"
        "| method | m ↑ |\n"
        "|---|---:|\n"
        "| a | 0.250 [0.250, 0.250] |\n"
        "| b | **0.750 [0.750, 0.750]** |\n\n"
        "Mean and 95 % interval. **Bold** is the best mean; ≈ marks means that do not differ"
        " significantly from it.\n\n"
        "- m: by hand; steps 0, 0.5, 1; options against=label; higher is better; 3 samples.\n\n"
        "model: tiny; family: bert; data: here; samples: 3; removed tokens: mask; seed: 1.\n\n"
        "Intervals: 95 % percentile bootstrap over the samples, 1000 draws, seed 0. Methods are"
        " compared with the best by paired differences, without correction for multiple"
        " comparisons.\n\n"
        "torch 2.0\n\n"
        "Command: `whyformer evaluate`\n"
    )


def test_hostile_names_stay_names() -> None:
    rows = [
        row(name, HOSTILE, HOSTILE, value, target=HOSTILE)
        for name, value in ((HOSTILE, 1.0), ("b", 0.5))
    ]
    settings = {"metrics": {HOSTILE: known(convention=HOSTILE)}, "model": {"name": HOSTILE}}
    settings |= {"command": HOSTILE, "versions": {HOSTILE: HOSTILE}, "fill": HOSTILE}
    text = markdown(Results(rows, settings))
    assert "<b>" not in text  # not in code spans either
    assert "\x1b" not in text
    assert "\u202e" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 4
    for line in table:  # the same columns, whatever the names contain
        cells = line.replace("\\\\", "").replace("\\|", "").count("|") - 1
        assert cells == 2
    assert text.splitlines()[-1].startswith("Command: &lt;b&gt;\\|x\\|&lt;/b&gt; \\`\\*\\_a")
    settings["command"] = "whyformer evaluate `x`"
    assert markdown(Results(rows, settings)).endswith("Command: `` whyformer evaluate `x` ``\n")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lrp_ah_ln", "lrp_ah_ln"),
        ("_a_ b_", "\\_a\\_ b\\_"),
        ("a|b", "a\\|b"),
        ("a\\|b", "a\\\\\\|b"),
        ("<i>", "&lt;i&gt;"),
        ("a\nb", "a b"),
    ],
)
def test_only_what_is_markup_is_escaped(name: str, expected: str) -> None:
    assert escape_markdown(name) == expected


def test_the_same_run_gives_the_same_text(run: Make) -> None:
    assert markdown(run()) == markdown(run())


def test_every_class_has_a_table_of_its_own(run: Make) -> None:
    text = markdown(run())
    assert text.count("| method |") == 2
    assert text.index("the predicted class") < text.index("the true class")
    assert text.count("Agreement between methods") == 2
    assert "agreement/" not in text


def test_nothing_measured_is_said() -> None:
    assert "Nothing was measured." in markdown(Results([], {}))
    assert "Nothing was measured." in printed(Results([], {}))


def test_numbers_line_up_and_small_ones_keep_their_digits() -> None:
    assert [decimals_for(v) for v in (0.5, 5, 50, 500, 5000, 0.05, 0.0005, 1e-5, 1e7, 0)] == [
        *(3, 3, 2, 1, 0, 4, 6),
        *(None, None, 3),
    ]
    assert [number_text(v) for v in (0.12345, -0.5, -0.0001, float("nan"))] == [
        *("0.123", f"{MINUS}0.500", "0.000", "–")
    ]
    assert number_text(-1.5e-7, None) == f"{MINUS}1.50e{MINUS}07"


# -- terminal --------------------------------------------------------------------------------


def printed(results: Results, width: int = 100) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(terminal_tables(results))
    return capture.get()


def test_the_terminal_says_what_the_table_says(tiny: Make) -> None:
    text = printed(tiny({"m": {"a": [0.25] * 3, "b": [0.75] * 3}, "n": {"a": [1.0] * 3}}))
    lines = [line.split() for line in text.splitlines()]
    assert ["method", "m", "↑", "n", "↑"] in lines
    assert ["a", "0.250", "[0.250,", "0.250]", "1.000", "[1.000,", "1.000]", "*"] in lines
    assert ["b", "0.750", "[0.750,", "0.750]", "*", "–"] in lines
    assert "3 samples" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_metrics_that_do_not_fit_go_below_and_none_is_cut(run: Make, width: int) -> None:
    results = run(metrics=[f"metric_{i}" for i in range(7)], targets=["label"], agreement=False)
    lines = printed(results, width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert all(f"metric_{i} ↑" in text for i in range(7))
    assert text.count("[") == 7 * 4
    assert "…" not in text


def test_a_terminal_is_not_steered_by_names() -> None:
    text = printed(Results([row(HOSTILE, HOSTILE, "s", 1.0)], {"metrics": {HOSTILE: known()}}))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[l](javascript:1)" in text  # rich's markup is not applied either


def test_values_of_a_score_are_not_changed_by_the_summary(run: Make) -> None:
    results = run()
    cell = next(iter(results.cells))
    before = results.score(cell)
    summary(results)
    after = results.score(cell)
    assert before is not None
    assert after is not None
    assert before.values.equal(after.values)
    assert tensor([r["value"] for r in results.cells[cell]]).double().equal(after.values)

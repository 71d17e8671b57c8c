"""The report: one self-contained page, escaped, with the right examples, quick and small."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from tests.evaluation.conftest import known, row
from whyformer.attribution import Attribution
from whyformer.evaluation.report import ReportExample, build_report, choose_examples
from whyformer.evaluation.report_target import bar
from whyformer.evaluation.results import Results
from whyformer.evaluation.summary import summary

Make = Callable[..., Results]
Words = Callable[..., Attribution]
HOSTILE = (
    "</td></script></style><script>alert('x')</script>"
    "\"'><img src=x onerror=alert(1)>&amp;{{ 7*7 }}"
)


class Page(HTMLParser):
    """Every tag with its attributes, and every piece of text, as a browser would read them."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside != "style":
            self.text.append(data)

    def with_tag(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def visible_text(self) -> str:
        return " ".join("".join(self.text).split())


def examples(results: Results, make: Words, per_side: int = 1) -> list[ReportExample]:
    return [
        choice.example({method: make(method=method) for method in choice.methods})
        for choice in choose_examples(results, per_side)
    ]


# -- which samples ---------------------------------------------------------------------------


def test_the_leaders_best_and_worst_samples_are_chosen(tiny: Make) -> None:
    values = {"a": [0.1, 0.9, 0.5, 0.7], "b": [0.0, 0.2, 0.5, 0.7], "c": [0.1, 0.8, 0.4, 0.0]}
    found = choose_examples(tiny({"m": values}), per_side=1)
    assert [(c.kind, c.sample, c.value) for c in found] == [
        ("best", "s1", 0.9),
        ("worst", "s0", 0.1),
    ]
    assert [c.methods for c in found] == [("a", "b"), ("a", "b")]
    found = choose_examples(tiny({"m": values}), per_side=2)
    assert [(c.kind, c.sample) for c in found] == [
        *(("best", "s1"), ("best", "s3")),
        *(("worst", "s0"), ("worst", "s2")),
    ]
    assert found[1].methods == ("a", "c")
    lower = choose_examples(tiny({"m": values}, {"m": known("lower")}), per_side=1)
    assert [(c.kind, c.sample, c.methods[0]) for c in lower] == [
        *(("best", "s3", "c"), ("worst", "s1", "c"))
    ]


def test_the_best_example_has_the_widest_difference(tiny: Make) -> None:
    """Not the highest value: there all methods may be as good, and the example shows nothing."""
    values = {"a": [1.0, 0.8, 0.1, 0.5], "b": [0.99, 0.1, 0.3, 0.5], "c": [0.98, 0.7, 0.0, 0.4]}
    best, worst = choose_examples(tiny({"m": values}), per_side=1)
    assert (best.sample, best.methods, best.value) == ("s1", ("a", "b"), 0.8)
    assert (worst.sample, worst.methods) == ("s2", ("a", "b"))
    lower = {name: [-value for value in own] for name, own in values.items()}
    best, _ = choose_examples(tiny({"m": lower}, {"m": known("lower")}), per_side=1)
    assert (best.sample, best.methods) == ("s1", ("a", "b"))


def test_equal_samples_go_by_how_much_the_methods_differ(tiny: Make) -> None:
    values = {"a": [1.0, 1.0, 0.0, 0.0], "b": [1.0, 0.0, 0.0, 1.0], "c": [0.0, 0.0, 0.0, 0.0]}
    found = choose_examples(tiny({"m": {"a": values["a"], "c": [0.9, 0.1, 0.0, -0.5]}}), per_side=1)
    assert [c.sample for c in found] == ["s1", "s3"]


def test_no_sample_is_on_both_sides_and_equal_values_have_no_worst(tiny: Make) -> None:
    found = choose_examples(tiny({"m": {"a": [0.1, 0.2, 0.3]}}), per_side=3)
    assert [(c.kind, c.sample) for c in found] == [
        *(("best", "s2"), ("best", "s1"), ("worst", "s0")),
    ]
    assert [c.kind for c in choose_examples(tiny({"m": {"a": [0.5] * 4}}), per_side=2)] == [
        "best"
    ] * 2
    assert [c.kind for c in choose_examples(tiny({"m": {"a": [0.5]}}))] == ["best"]
    assert choose_examples(tiny({"m": {"a": [0.5, 0.1]}}), per_side=0) == []
    assert choose_examples(Results([], {})) == []


def test_samples_in_which_nothing_counts_are_no_examples() -> None:
    there = [1.0, 0.0, 1.0]
    rows = [
        row("a", "m", f"s{i}", v, found=[v], there=[there[i]])
        for i, v in enumerate((0.5, 0.0, 0.9))
    ]
    rows.append(row("b", "n", "s0", math.nan))
    found = choose_examples(Results(rows, {"metrics": {"m": known(), "n": known()}}), per_side=3)
    assert [(c.metric, c.sample) for c in found] == [("m", "s2"), ("m", "s0")]


def test_agreement_is_one_metric_with_the_pair_that_agrees_most_or_least() -> None:
    agree = {("a", "b"): [0.9, 0.1], ("a", "c"): [0.5, 0.4], ("b", "c"): [0.7, -0.8]}
    rows = [
        row(one, f"agreement/{other}", f"s{i}", value)
        for (one, other), values in agree.items()
        for i, value in enumerate(values)
    ]
    best, worst = choose_examples(Results(rows, {}))
    assert (best.metric, best.sample, best.methods) == ("agreement", "s0", ("a", "b"))
    assert best.value == pytest.approx(0.7)
    assert (worst.kind, worst.sample, worst.methods) == ("worst", "s1", ("b", "c"))


# -- the page --------------------------------------------------------------------------------


def test_the_page_says_what_was_measured(run: Make, words: Words) -> None:
    results = run()
    page = Page(build_report(results, examples(results, words)))
    assert page.with_tag("html") == [{"lang": "en"}]
    for piece in (
        "Evaluation of sst2",
        "BertForSequenceClassification",
        "fingerprint",
        "Explaining the predicted class",
        "Explaining the true class",
        "leads with",
        "removed tokens",
        "s99: empty text",
        "95 % percentile bootstrap over the samples, 200 draws, seed 0",
        "whyformer evaluate --model sst2",
        "how auac was taken, against the target class; steps 0, 0.25, 0.5, 0.75, 1",
        "Lower is better",
        "range -1 to open",
        "torch 2.13",
        "the method with the best mean is furthest ahead of another method",
    ):
        assert piece in page.visible_text, piece
    tables = [a for a in page.with_tag("table") if a.get("class") == "summary"]
    assert len(tables) == 2
    assert len([a for a in page.with_tag("table") if a.get("class") == "heat"]) == 2
    assert (
        len([a for a in page.with_tag("svg") if (a.get("class") or "").startswith("curves")]) == 4
    )


def test_every_number_of_the_table_is_the_summarys(run: Make) -> None:
    results = run(targets=["label"], agreement=False)
    page = Page(build_report(results))
    values = [float(a["data-value"] or 0) for a in page.with_tag("td") if "data-value" in a]
    figures = summary(results)
    expected = [f.by_method[m].mean for m in results.methods for f in figures]
    assert values == pytest.approx(expected)
    for figure in figures:
        for found in figure.rows:
            assert f"[{found.low:.3f}, {found.high:.3f}]" in page.visible_text
    marks = Counter(a.get("class") for a in page.with_tag("td"))
    assert marks["best"] == sum(r.best for f in figures for r in f.rows)
    assert marks["alike"] == sum(r.alike for f in figures for r in f.rows)


def test_bars_are_drawn_on_one_scale_per_metric(tiny: Make) -> None:
    (figure,) = summary(tiny({"m": {"a": [0.0, 0.0], "b": [1.0, 1.0], "c": [0.5, 0.5]}}))
    assert bar(figure, "a") == pytest.approx((2, 2, 2))
    assert bar(figure, "b") == pytest.approx((98, 98, 98))
    assert bar(figure, "c") == pytest.approx((50, 50, 50))
    assert bar(figure, "nobody") is None
    (flat,) = summary(tiny({"m": {"a": [0.5, 0.5]}}))
    assert bar(flat, "a") is None


def test_user_text_is_escaped_everywhere(words: Words) -> None:
    rows = [
        row(method, metric, HOSTILE, value, target=HOSTILE, curve=[0.1, value])
        for method, value in ((HOSTILE, 0.5), ("b", 0.25))
        for metric in (HOSTILE, f"agreement/{HOSTILE}")
    ]
    settings = known(
        title=HOSTILE, convention=HOSTILE, paper=HOSTILE, steps=[0, 1], options={HOSTILE: HOSTILE}
    )
    results = Results(
        rows,
        {
            "command": HOSTILE,
            "model": dict.fromkeys(("name", "class", "family", "fingerprint"), HOSTILE),
            "data": {"source": HOSTILE, "split": HOSTILE, "skipped": [HOSTILE]},
            "methods": {HOSTILE: {"method": HOSTILE, "options": {HOSTILE: HOSTILE}}},
            "metrics": {HOSTILE: settings, f"agreement/{HOSTILE}": settings},
            "fill": HOSTILE,
            "seed": HOSTILE,
            "versions": {HOSTILE: HOSTILE},
            HOSTILE: HOSTILE,
        },
    )
    shown = [
        ReportExample(
            HOSTILE, HOSTILE, kind, 0.5, HOSTILE, {HOSTILE: words((HOSTILE, "b"), label=HOSTILE)}
        )
        for kind in ("best", "worst")
    ]
    page = Page(build_report(results, shown))
    plain = Page(build_report(Results(rows[:0], {}), shown))
    assert page.with_tag("img") == plain.with_tag("img") == []
    assert len(page.with_tag("script")) == 1  # the page's own
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert page.visible_text.count("alert('x')") > 20
    assert "49" not in page.visible_text
    assert HOSTILE in "".join(page.text)


def test_the_policy_lets_only_the_pages_own_scripts_run(
    run: Make, words: Words, linked: Words
) -> None:
    results = run(targets=["label"])
    for shown, count in (([], 1), (examples(results, words), 1), (examples(results, linked), 2)):
        text = build_report(results, shown)
        page = Page(text)
        (policy,) = [a["content"] for a in page.with_tag("meta") if a.get("http-equiv")]
        scripts = [
            script
            for script, attrs in zip(page.scripts, page.with_tag("script"), strict=True)
            if "type" not in attrs
        ]
        assert len(scripts) == count  # once, however many examples need it
        digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
        allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
        assert policy == (
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src " + allowed
        )
        assert not re.search(r"https?:|@import|url\(", text)
        assert not [a for a in page.with_tag("link") if a]


def test_styles_of_examples_stand_once_and_ids_are_unique(
    run: Make, words: Words, linked: Words
) -> None:
    results = run()
    shown = [*examples(results, words, 2), *examples(results, linked)]
    text = build_report(results, shown)
    page = Page(text)
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids)) > 4
    drawn = [a for a in page.with_tag("div") if a.get("class") == "whyformer cell"]
    assert len(drawn) == sum(len(e.attributions) for e in shown)
    assert len(page.with_tag("style")) == 3  # the report's, and one for each kind of example
    targets = {a["href"] for a in page.with_tag("a")}
    assert targets <= {f"#{name}" for name in ids}
    for _, attrs in page.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(name) is None or attrs[name] in ids


def test_examples_show_each_methods_value_and_attribution(run: Make, words: Words) -> None:
    results = run(targets=["label"], agreement=False)
    (choice, *_) = choose_examples(results, 1)
    page = Page(
        build_report(results, [choice.example({m: words(method=m) for m in choice.methods})])
    )
    values = {
        r["method"]: r["value"]
        for r in results.rows
        if (r["sample"], r["metric"]) == (choice.sample, choice.metric)
    }
    for method in choice.methods:
        assert f"{method} {values[method]:.3f} Why good ?" in page.visible_text.replace(
            "good?", "good ?"
        )
    assert "gripping" in page.visible_text


def test_where_nothing_is_better_nothing_is_called_best(tiny: Make, words: Words) -> None:
    values = {"m": {"a": [0.1, 0.9]}, "agreement/b": {"a": [0.1, 0.9]}}
    results = tiny(values, {"m": known("neither")})
    visible_text = Page(build_report(results, examples(results, words))).visible_text
    assert "Highest s1 0.900" in visible_text
    assert "Lowest s0 0.100" in visible_text
    assert "The methods agree most s1 0.900" in visible_text
    assert " leads " not in visible_text


def test_the_same_run_gives_the_same_page(run: Make, words: Words) -> None:
    results = run()
    assert build_report(results, examples(results, words)) == build_report(
        run(), examples(run(), words)
    )


@pytest.mark.parametrize("missing", ["everything", "metrics", "model", "data", "bootstrap"])
def test_missing_settings_are_left_out(run: Make, missing: str) -> None:
    results = run(samples=4, methods=2)
    kept = {k: v for k, v in results.settings.items() if missing not in (k, "everything")}
    page = Page(build_report(Results(results.rows, kept)))
    assert "None" not in page.visible_text
    assert "undefined" not in page.visible_text.lower()
    assert len([a for a in page.with_tag("table") if a.get("class") == "summary"]) == 2


def test_empty_and_small_runs_have_a_page(tiny: Make) -> None:
    assert "There are no results." in Page(build_report(Results([], {}))).visible_text
    one = Page(build_report(tiny({"m": {"a": [0.5]}})))
    assert "1 sample" in one.visible_text
    assert "leads" not in one.visible_text  # a single method does not lead
    rows = [row("a", "m", "s0", 0.0, found=[0.0], there=[0.0])]
    assert (
        "no samples" in Page(build_report(Results(rows, {"metrics": {"m": known()}}))).visible_text
    )
    assert "nan" not in one.visible_text


def test_methods_that_lack_a_metric_have_a_dash(tiny: Make) -> None:
    page = Page(
        build_report(tiny({"m": {"a": [0.5, 0.6], "b": [0.1, 0.2]}, "n": {"a": [0.5, 0.6]}}))
    )
    assert Counter(a.get("class") for a in page.with_tag("td"))["none"] == 1


def test_a_large_run_is_quick_and_small(run: Make) -> None:
    results = run(
        methods=15,
        samples=500,
        metrics=["auac", "au_mse", "segmentation/miou", "pointing_game", "au_x", "f1"],
        targets=["predicted"],
        agreement=False,
        draws=1000,
    )
    start = time.perf_counter()
    page = build_report(results)
    assert time.perf_counter() - start < 3
    assert len(page.encode()) < 2_000_000
    assert page.count("data-value=") == 15 * 6

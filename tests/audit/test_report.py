"""Files of an audit: numbers that JSON has, rows that Parquet gives back, a page that is safe."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from whyformer.audit import Audit, AuditColumn, AuditTable, audit_names, audit_terms
from whyformer.audit.findings import Chart, Point
from whyformer.audit.report import interval_chart
from whyformer.errors import InputError
from whyformer.models.load import Loaded
from whyformer.render.charts.interval_chart import FIGURES, LABELS, WIDTH, draw_intervals
from whyformer.statistics.bootstrap import Estimate

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def found(tiny: Loaded) -> Audit:
    return audit_names(
        tiny,
        names={"a": ["Anna", f"{EVIL}"], '"b"&': ["Bob", "Cy"]},
        templates={"<i>": ["the film by {name}"], "x": [f"{{name}} {EVIL}"]},
        draws=20,
    )


def test_the_files(found: Audit, tmp_path: Path) -> None:
    written = found.save(tmp_path / "deep" / "folder")
    assert [path.name for path in written] == ["audit.json", "rows.parquet", "report.html"]
    told = json.loads(written[0].read_text(encoding="utf-8"))
    assert told["format"] == "whyformer-audit-1"
    assert told["settings"]["seed"] == 0
    assert told["settings"]["groups"]["a"] == ["Anna", EVIL]
    assert set(told["tables"]) == set(found.tables)
    assert told["tables"]["groups"]["rows"][0]["group"] == "a"
    rows = parquet.read_table(written[1]).to_pylist()
    assert rows == [dict(row) for row in found.rows]
    assert len(rows) == told["explanations"] == 8


def test_rows_of_terms_survive_parquet(tiny: Loaded, tmp_path: Path) -> None:
    found = audit_terms(["the film by Anna", "!"], tiny, terms=["Anna"], draws=5, min_count=1)
    written = found.save(tmp_path)
    rows = parquet.read_table(written[1]).to_pylist()
    assert [row["terms"] for row in rows] == [["Anna"], []]
    assert rows[1]["top word"] is None


def test_json_has_no_numbers_that_are_none(tmp_path: Path, found: Audit) -> None:
    table = AuditTable(
        "t", (AuditColumn("x", "number"),), ((float("nan"),), (float("inf"),), (1.5,))
    )
    odd = Audit("names", "t", ("message",), {"t": table}, found.rows, {"seed": 0})
    odd.save(tmp_path)
    rows = json.loads((tmp_path / "audit.json").read_text("utf-8"))["tables"]["t"]["rows"]
    assert rows == [{"x": None}, {"x": None}, {"x": 1.5}]


def test_what_users_wrote_is_escaped(found: Audit) -> None:
    page = found.to_html()
    assert EVIL not in page
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<i>" not in page
    assert "&#34;b&#34;&amp;" in page


def test_the_page_asks_nobody_for_anything(found: Audit) -> None:
    page = found.to_html()
    assert "default-src 'none'" in page
    assert "prefers-color-scheme:dark" in page
    assert not re.search(r'(?:src|href)\s*=\s*"(?!data:|#)', page)
    assert "url(" not in page


class Balance(HTMLParser):
    """Fails where tags are not closed in order; knows what every heading says."""

    VOID = frozenset({"meta", "line", "circle", "img", "br", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_has_every_part(found: Audit) -> None:
    page, parser = found.to_html(), Balance()
    parser.feed(page)
    assert parser.open == []
    assert parser.seen.count("svg") == len(found.charts)
    for table in found.tables.values():
        assert table.title in page
    for sentence in found.headline[:1]:
        assert sentence.replace("'", "&#39;") in page
    assert page.count('class="whyformer cell"') == len(found.examples) == 3
    # Whatever scrolls can be reached by keyboard and has a name.
    assert page.count('class="wide"') == page.count('class="wide" tabindex="0" role="region"')


def test_a_page_without_classes_or_examples(tiny: Loaded) -> None:
    found = audit_terms(["!"], tiny, draws=5)
    assert "Relevance by kind of word" in found.to_html()


def test_without_pyarrow_saving_says_what_to_install(
    found: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"Writing rows\.parquet needs .* 'whyformer\[data\]'"):
        found.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- cells and charts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "cell", "text"),
    [
        ("text", "Anna", "Anna"),
        ("text", True, "yes"),
        ("text", False, "no"),
        ("count", 3, "3"),
        ("number", 1.23456, "1.2346"),
        ("number", -0.5, "\N{MINUS SIGN}0.5000"),
        ("signed", 0.5, "+0.5000"),
        ("signed", -0.00001, "0.0000"),
        ("signed", 0.0, "0.0000"),
        ("percent", 0.1234, "12.3 %"),
        ("percent", -0.1234, "\N{MINUS SIGN}12.3 %"),
        ("number", None, "–"),
        ("number", float("nan"), "–"),
    ],
)
def test_cells(kind: str, cell: object, text: str) -> None:
    assert AuditColumn("x", kind).format(cell) == text  # type: ignore[arg-type]


def drawn(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(str(draw_intervals(interval_chart(chart))))


def test_a_chart_puts_everything_on_one_scale() -> None:
    points = (Point("up", Estimate(1, 0.5, 2)), Point("a" * 99, Estimate(-1, -3, 1)))
    svg = drawn(Chart("t", points))
    up, down = svg.findall("g")

    def place(group: ElementTree.Element, name: str, key: str) -> float:
        found = group.find(f"*[@class='{name}']")
        assert found is not None
        return float(found.get(key) or "nan")

    low, high = place(down, "whisker", "x1"), place(down, "whisker", "x2")
    value, upper = place(down, "dot", "cx"), place(up, "dot", "cx")
    width = float(svg.attrib["viewBox"].split()[2])  # wider for the long label
    assert LABELS <= low < value < high < place(up, "whisker", "x2") <= width - FIGURES + 12
    assert drawn(Chart("t", points[:1])).attrib["viewBox"].split()[2] == str(WIDTH)
    assert (up.get("class"), down.get("class")) == ("clear", None)
    zero = place(svg, "zero", "x1")
    assert value < zero < upper
    # The scale is linear: a step of one is as long everywhere.
    assert upper - zero == pytest.approx(zero - value, abs=0.2)
    title, label = down.findtext("title") or "", down.findtext("text") or ""
    assert 60 <= len(label) < 99  # the name of a method with its options is never cut
    assert title.startswith("a" * 99 + ": ")
    assert "0" in [text.text for text in svg.findall("text[@class='axis']")]


@pytest.mark.parametrize("value", [0.0, 1e-9, -5.0, 1e6])
def test_a_chart_of_one_value_has_a_scale(value: float) -> None:
    nothing = float("nan")
    svg = drawn(Chart("t", (Point("x", Estimate(value, nothing, nothing)),), percent=True))
    assert svg.find("g/line") is None
    dot = svg.find("g/circle")
    assert dot is not None
    assert LABELS <= float(dot.get("cx") or "nan") <= WIDTH - FIGURES + 12
    assert 1 <= len(svg.findall("text[@class='axis']")) <= 7

"""Benchmarks run on tiny models, and their page says what their files say."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
TINY = ["--layers", "2", "--hidden", "32"]
RUN = {
    "command": "python benchmarks/some.py --rounds 3",
    "date": "2026-01-02",
    "processor": "a processor",
    "cores": 2,
    "load": 0.1,
    "torch": "2",
    "transformers": "5",
}


def script(name: str) -> Any:
    return importlib.import_module(name)


def written(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_every_script_says_what_it_is(name: str) -> None:
    if name == "flow":
        pytest.importorskip("networkx", reason="networkx is for developers")
    module = script(name)
    assert module.__doc__
    usage = f"python benchmarks/{name}.py"
    assert not hasattr(module, "main") or usage in module.__doc__


# -- answers ---------------------------------------------------------------------------------------


def test_answers_are_measured_against_plain_passes(tmp_path: Path) -> None:
    size = "--layers 1 --hidden 28 --vocabulary 50 --prompt 6 --answer 3 --rounds 1"
    path = tmp_path / "answers.json"
    script("answers").main([*size.split(), "--without-memory", "--json", str(path)])
    found = written(path)
    assert found["references"]["libragrad, each token"] == 3
    assert found["references"]["libragrad, whole answer"] == 1
    assert all(seconds > 0 for seconds in found["seconds"].values())
    assert set(found["seconds"]) == set(found["references"])


# -- products --------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN")
def test_products_are_measured_by_both_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    products, threads = script("products"), torch.get_num_threads()
    for name, value in {"WEIGHTS": ((8, 4),), "TOKENS": (1, 8), "NUMBERS": 64}.items():
        monkeypatch.setattr(products, name, value)
    monkeypatch.setattr(sys, "argv", ["products.py", "--json", str(tmp_path / "products.json")])
    try:
        assert products.main() == 0
    finally:
        torch.set_num_threads(threads)
    found = written(tmp_path / "products.json")
    assert set(found["ratios"]) == {"8 x 4"}
    assert all(ratio > 0 for ratio in found["ratios"]["8 x 4"].values())
    assert found["difference"] < 1e-6


# -- peers -----------------------------------------------------------------------------------------


def test_peers_are_measured_and_those_that_are_not_there_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers, contenders = script("peers"), script("contenders")
    absent = contenders.Peer(
        "Nobody's GAE", "nobody", _import_of("nobody_has_this"), None, "gae", "nothing"
    )
    failing = contenders.Peer("a broken one", None, str, _fails, "gae", "nothing")
    found = [peer for peer in contenders.PEERS if peer.name == "textbook GAE"]
    monkeypatch.setattr(peers, "PEERS", (*found, absent, failing))
    threads = torch.get_num_threads()
    path = tmp_path / "new" / "peers.json"
    sizes = [*TINY, "--tokens", "12", "--rounds", "1", "--threads", "1"]
    assert peers.main([*sizes, "--shapes", "bert,vit", "--json", str(path)]) == 0
    assert torch.get_num_threads() == threads
    results = written(path)
    assert results["run"]["torch"]
    assert results["exceeded"] == []
    assert list(results["shapes"]) == ["BERT, 12 tokens", "ViT, 197 tokens"]
    for one in results["shapes"].values():
        (row,) = one["rows"]
        assert (row["peer"], row["ours"]) == ("textbook GAE", "gae")
        assert row["difference"] < 1e-5
        for figure in ("1 thread", "bytes"):
            measured = one["figures"][figure]
            assert set(measured) == {"forward+backward", "gae", "textbook GAE"}
            assert min(measured.values()) > 0
        times = one["figures"]["1 thread"]
        assert row["winner"] == peers.winner(times["gae"], times["textbook GAE"])
        said = {row["peer"]: row["why"] for row in one["missing"]}
        assert said["Nobody's GAE"].startswith("not importable: ModuleNotFoundError")
        assert said["a broken one"] == "imports, and fails on this model: ValueError: too much"


def _import_of(name: str) -> Any:
    return lambda: importlib.import_module(name)


def _fails(subject: Any, steps: int) -> Any:
    raise ValueError("too much\nof everything")


def test_a_peer_that_differs_is_over_the_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    peers, contenders = script("peers"), script("contenders")

    def wrong(subject: Any, steps: int) -> Any:
        return lambda: torch.ones(1, 8)

    monkeypatch.setattr(peers, "PEERS", (contenders.Peer("odd", None, str, wrong, "gae", ""),))
    sizes = [*TINY, "--tokens", "8", "--rounds", "1", "--threads", "1", "--shapes", "bert"]
    assert peers.main(sizes) == 1
    assert "over the limit: odd on BERT, 8 tokens differs by" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ours", "peer", "who"), [(1, 2, "ours"), (2, 1, "peer"), (1, 1.01, "even"), (1, 0.99, "even")]
)
def test_the_winner_is_who_is_faster(ours: float, peer: float, who: str) -> None:
    assert script("peers").winner(ours, peer) == who


@pytest.mark.filterwarnings("ignore")  # the peers' own
@pytest.mark.parametrize("name", ["captum", "zennit", "lxt", "autolrp"])
def test_a_peer_that_is_installed_agrees(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip("peers are installed by `make bench`")
    peers, contenders, subjects = script("peers"), script("contenders"), script("subjects")
    subject = subjects.bert(10, layers=2, hidden=32)
    for peer in (p for p in contenders.PEERS if p.package == name):
        found = peers.ready(subject, peer, 3)
        assert not isinstance(found, str), found
        assert found.scores.shape == (1, 10)
        if peer.same:
            ours = peers.ours(subject, peer, 3)[1]()
            assert peers.apart(ours, found.scores) < 1e-4


def test_stand_ins_go_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins = script("stand_ins")
    with stand_ins._stand_ins({"nowhere": {}, "nowhere.below": {"a": 1}, "json": {"b": 2}}):
        from nowhere import below  # type: ignore[import-not-found]

        assert below.a == 1
        assert json.b == 2  # type: ignore[attr-defined]
    assert not hasattr(json, "b")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nowhere")


# -- sweep -----------------------------------------------------------------------------------------


def test_a_sweep_measures_cells_and_lists_what_it_leaves_out(tmp_path: Path) -> None:
    sweep, path = script("sweep"), tmp_path / "sweep.json"
    limits = ["--rounds", "1", "--lengths", "8,16,136", "--batches", "1,2", "--at", "16"]
    methods = ["--methods", "gae,attention_flow"]
    assert sweep.main([*TINY, *limits, *methods, "--json", str(path)]) == 0
    results = written(path)
    cells = {(c["method"], c["tokens"], c["batch"]): c for c in results["cells"]}
    every = {(8, 1), (16, 1), (136, 1), (16, 2)}
    for method in ("forward+backward", "gae"):
        assert {key[1:] for key in cells if key[0] == method} == every
    assert {key[1:] for key in cells if key[0] == "attention_flow"} == every - {(136, 1)}
    assert all(cell["seconds"] > 0 and cell["bytes"] > 0 for cell in cells.values())
    (left,) = results["left_out"]
    assert (left["method"], left["tokens"], left["why"]) == (
        "attention_flow",
        136,
        "over 128 tokens",
    )
    assert results["exponents"]["gae"]["between"] == [16, 136]


def test_a_cell_is_left_out_by_what_the_last_one_took() -> None:
    sweep = script("sweep")
    cells = [sweep.Cell("gae", 100, 1, 10.0, 2**20), sweep.Cell("gae", 50, 1, 1.0, 2**20)]
    roomy = sweep.Limits(50.0, 2.0**30)
    assert sweep.unfit([], "gae", 4096, 1, roomy) == ""
    assert sweep.unfit(cells, "gae", 200, 1, roomy) == ""  # 40 s
    assert sweep.unfit(cells, "gae", 300, 1, roomy) == "90 s expected"
    assert sweep.unfit(cells, "gae", 100, 8, roomy) == "80 s expected"
    assert sweep.unfit(cells, "gae", 200, 1, sweep.Limits(50.0, 2.0**21)).endswith("GiB expected")
    assert sweep.unfit(cells, "rollout", 300, 1, roomy) == ""


def test_exponents_are_of_the_two_longest_single_texts() -> None:
    sweep = script("sweep")
    cells = [sweep.Cell("gae", n, 1, 1e-3 * n**2, 100 * n) for n in (64, 512, 128)]
    found = sweep.exponents([*cells, sweep.Cell("gae", 1024, 4, 1e9, 1)])["gae"]
    assert found["between"] == [128, 512]
    assert math.isclose(found["seconds"], 2)
    assert math.isclose(found["bytes"], 1)


# -- memory ----------------------------------------------------------------------------------------


def test_weights_are_no_part_of_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    memory = script("memory")
    config = BertConfig(
        hidden_size=256, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512
    )
    model = BertForSequenceClassification(config).eval().requires_grad_(False)
    inputs = {"input_ids": torch.randint(1000, 2000, (1, 4))}
    monkeypatch.setattr(memory, "model_and_inputs", lambda shape, tokens: (model, inputs))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    highest = memory.measure_here("bert", "transformer_attribution", 4)
    feed_forward = 4 * 2 * 256 * 512  # bytes of its two weights; a rule takes |w| of one at a time
    assert 0 < highest < feed_forward


# -- the report and the page -----------------------------------------------------------------------


def test_what_can_enter_a_token_is_half_its_column_and_half_its_own_state() -> None:
    """The edges are attention_flow's: rows of (attention + identity) / 2."""
    layer = SimpleNamespace(attention=torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]))
    assert script("flow_cut").entering([layer])[0].tolist() == pytest.approx([1.25, 0.75])


def test_a_command_has_no_place_of_this_machine() -> None:
    words = ["/a/b/speed.py", "--rounds", "3", "--json", "/c/d.json", "--data", "/e"]
    assert script("report").command(words) == "python benchmarks/speed.py --rounds 3"


def test_a_file_is_written_as_a_whole(tmp_path: Path) -> None:
    report, path = script("report"), tmp_path / "a" / "some.json"
    assert report.finish({"figure": 1}, ["too slow"], path) == 1
    assert written(path)["exceeded"] == ["too slow"]
    with pytest.raises(TypeError):
        report.finish({"figure": object()}, [], path)
    assert written(path)["figure"] == 1
    assert [file.name for file in path.parent.iterdir()] == ["some.json"]


PLAIN = {"forward": 0.5, "forward+backward": 1.0, "rollout": 0.6, "gae": 1.234}
CELLS = [
    {"method": method, "tokens": tokens, "batch": batch, "seconds": s * tokens, "bytes": 2**20}
    for method, s in (("forward+backward", 0.5), ("gae", 1.0))
    for tokens, batch in ((64, 1), (128, 1), (128, 8))
]
GREW = {"between": [64, 128], "seconds": 1.25, "bytes": 2.0}
SWEPT = {
    "cells": CELLS,
    "exponents": {"gae": GREW, "forward+backward": GREW},
    "left_out": [{"method": "full_lrp", "tokens": 2048, "batch": 1, "why": "99 s expected"}],
}
PEERS = {
    "figures": {
        "1 thread": {"forward+backward": 1.0, "gae": 1.0, "textbook GAE": 0.8},
        "bytes": {"forward+backward": 10, "gae": 10, "textbook GAE": 50},
    },
    "rows": [
        {
            "peer": "textbook GAE",
            "version": None,
            "ours": "gae",
            "compared": "the | same",
            "got round": "",
            "difference": 2e-7,
            "winner": "peer",
        }
    ],
    "missing": [{"peer": "LXT", "method": "attn_lrp", "why": "not importable: no"}],
}
FILES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "speed": ({"shapes": {"BERT": PLAIN}}, ["| `gae` | 1.23 |", "0.60 (1.20 of a forward)"]),
    "memory": (
        {
            "shapes": {
                "BERT": {
                    "peak": {"forward+backward": 2**20, "full_lrp": 5 * 2**19},
                }
            }
        },
        ["| `full_lrp` | 2.50 |"],
    ),
    "products": (
        {
            "preferred": True,
            "ratios": {"384 x 1536": {"1": 0.4, "12": 2.0}},
            "difference": 1e-7,
        },
        ["| weight | 1 tokens | 12 tokens |", "| 384 x 1536 | 0.40 | 2.00 |", "prefers oneDNN"],
    ),
    "peers": (
        {"shapes": {"BERT": PEERS}},
        [
            "800 / 1000 ms | 0.80 | 5.00 | **the peer** | 2e-07",
            "not importable: no",
            "the \\| same",
        ],
    ),
    "flow": (
        {
            "shapes": {
                "64x12": {
                    "text": {
                        "seconds": 0.5,
                        "gap": 0.0,
                        "networkx_seconds": 400.0,
                        "times": 800.0,
                        "difference": 0.0,
                    }
                },
                "512x6": {"text": {"seconds": 5.0, "gap": 0.0}},
            }
        },
        ["| 64x12 | text | 0.50 s | 400 s | 800 |"],
    ),
    "sweep": (SWEPT, ["| `gae` | 2.00 / 1.00 | 2.00 / 1.00 | 1.25 / 2.00 |", "(99 s expected)"]),
    "long_inputs": (
        {
            "seconds": {"1024": {"forward+backward": 2.0, "gae": 3.0}},
            "bytes": {"1024": {"forward+backward": 100, "gae": 150}},
            "exponent": {"gae": 1.05},
            "longest": {"tokens": 16384, "seconds": 1000.0, "resident_gib": 5.0},
        },
        ["| `gae` | 1.50 / 1.50 |", "5.0 GiB"],
    ),
    "throughput": (
        {
            "lengths": {"bert": {"seconds": {"one at a time": 4.0, "iterator": 2.0}}},
            "series": {
                "sentences": 100,
                "seconds": {"plain": 1.0, "gae": 1.1},
                "growth in MB": 4.0,
            },
        },
        ["| bert | iterator | 2.00 s | 2.00 |", "| `gae` | 1.1 s | 1.10 |"],
    ),
    "segmentation": (
        {
            "methods": {
                "gae": {
                    "pixel_accuracy": 79.1,
                    "miou": 62.8,
                    "map": 78.6,
                    "map_class_mean": 90.6,
                    "authors": [76.6, 60.2, 89.2],
                    "seconds_per_image": 0.21,
                }
            }
        },
        ["| `gae` | 79.1 | 62.8 | 90.6 | 78.6 | 76.6 / 60.2 / 89.2 | 0.21 |"],
    ),
    "evaluation": (
        {
            "sentences": 872,
            "threads": 2,
            "alone_measured_on": 36,
            "difference": {"gae": 3e-7},
            "alone_seconds": {"wall": 3000.0, "cpu": 4000.0},
            "batched_seconds": {"wall": 400.0, "cpu": 800.0},
        },
        ["| wall | 3000 s | 400 s | 7.5 |"],
    ),
}
FILES["speed_two"] = FILES["speed_small"] = FILES["streams"] = FILES["speed"]
FILES["sweep_long"] = FILES["sweep"]


@pytest.fixture
def place(tmp_path: Path) -> SimpleNamespace:
    """A folder of results, and a copy of the page as it is in the docs."""
    (tmp_path / "results").mkdir()
    page = tmp_path / "benchmarks.md"
    page.write_text((ROOT / "docs" / "benchmarks.md").read_text("utf-8"), encoding="utf-8")
    words = ["--results", str(tmp_path / "results"), "--page", str(page)]
    return SimpleNamespace(results=tmp_path / "results", page=page, words=words)


def test_the_page_has_a_place_for_every_file(place: SimpleNamespace) -> None:
    page = script("page")
    assert set(page.RENDER) == set(FILES)
    for name, (found, _) in FILES.items():
        content = {"run": RUN, "exceeded": [], **found}
        (place.results / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    assert page.main(place.words) == 0
    text = place.page.read_text(encoding="utf-8")
    for name, (_, lines) in FILES.items():
        section = text.split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]
        assert RUN["command"] in section
        assert all(line in section for line in lines), section
    for image in text.split("](")[1:]:
        path = image.partition(")")[0]
        if path.startswith("images/"):
            assert (place.page.parent / path).read_text("utf-8").rstrip().endswith("</svg>")
    first = {path.name: path.read_bytes() for path in place.page.parent.glob("images/*.svg")}
    assert page.main(place.words) == 0
    assert place.page.read_text(encoding="utf-8") == text
    assert first == {p.name: p.read_bytes() for p in place.page.parent.glob("images/*.svg")}


def test_what_was_not_run_stays(place: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    before = place.page.read_text(encoding="utf-8")
    assert script("page").main(place.words) == 0
    assert place.page.read_text(encoding="utf-8") == before
    assert "not run: peers" in capsys.readouterr().out


def test_the_page_says_what_was_over_and_fails(place: SimpleNamespace) -> None:
    content = {"run": RUN, "exceeded": ["gae: 1.3 > 1.2"], **FILES["speed"][0]}
    (place.results / "speed.json").write_text(json.dumps(content), encoding="utf-8")
    assert script("page").main(place.words) == 1
    assert "- Over the limit: gae: 1.3 > 1.2" in place.page.read_text(encoding="utf-8")


def test_the_docs_page_is_what_the_results_say(place: SimpleNamespace) -> None:
    page = script("page")
    page.main(["--results", str(ROOT / "benchmarks" / "results"), "--page", str(place.page)])
    now = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert place.page.read_text(encoding="utf-8") == now, "run `python benchmarks/page.py`"

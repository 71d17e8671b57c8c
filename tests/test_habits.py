"""What people try first in Python: tables, the strongest words, progress, logs, positions."""

from __future__ import annotations

import csv
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import whyformer as wf
from whyformer.errors import InputError, OptionError

TEXTS = ["a gripping, beautifully acted film", "a dull film"]


@pytest.fixture(scope="module")
def both() -> wf.Attribution:
    return wf.explain(TEXTS)


def test_the_probability_is_that_of_the_class(both: wf.Attribution) -> None:
    other = wf.explain(TEXTS, target=[0, 1])
    assert both.probability is not None
    assert other.probability is not None
    assert both.probability + other.probability == pytest.approx(torch.ones(2))
    assert both[1].probability == both.probability[1:]
    assert wf.explain(TEXTS, target=wf.contrast(1, 0)).probability is None
    mixed = wf.explain(TEXTS, target=[wf.contrast(1, 0), 1]).probability
    assert mixed is not None
    assert mixed[0].isnan()
    assert mixed[1] == pytest.approx(float(other.probability[1]))


def test_the_probability_is_saved_and_listed(both: wf.Attribution, tmp_path: Path) -> None:
    both.save(tmp_path / "a.safetensors")
    read = wf.load(tmp_path / "a.safetensors")
    assert read.probability is not None
    assert read.probability.equal(both.probability)
    assert both.to_dict()["probability"] == both.probability.tolist()
    mixed = wf.explain(TEXTS, target=[wf.contrast(1, 0), 1])
    assert mixed.to_dict()["probability"][0] is None, "JSON has no NaN"


def test_the_probability_of_an_answer_is_the_product_over_its_tokens() -> None:
    chat = wf.models()["reader"].samples()[0]
    found = wf.explain(chat, "reader")
    chances = found.streams["generated"].probabilities
    assert float(found.probability) == pytest.approx(float(chances[0].prod()), rel=1e-5)


def test_the_table_has_a_row_per_word(both: wf.Attribution, tmp_path: Path) -> None:
    frame = both.to_pandas()
    assert list(frame.columns) == [
        "sample", "stream", "position", "text", "special", "score", "label", "output",
        "probability", "method",
    ]  # fmt: skip
    assert len(frame) == sum(len(one.words()) for one in both)
    second = frame[frame["sample"] == 1]
    assert list(zip(second["text"], second["score"], strict=True)) == both[1].words()
    assert second["special"].sum() == 2
    assert frame["score"].sum() == pytest.approx(float(both.scores.sum()), rel=1e-5)
    assert both.to_csv(tmp_path / "why.csv") is None
    with (tmp_path / "why.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == list(frame["text"])
    assert math.isclose(float(rows[0]["score"]), frame["score"][0])


def test_the_table_of_an_image_has_a_row_per_patch() -> None:
    found = wf.explain(wf.models()["mnist"].samples()[0], "mnist")
    frame = found.to_pandas()
    assert len(frame) == found.scores.shape[1]
    assert frame["text"][0] == "row 1, column 1"
    name, score = found.top(1)[0]
    assert score == max(found.scores[0].tolist(), key=abs)
    assert name in set(frame["text"])


def test_top_gives_the_strongest_words(both: wf.Attribution) -> None:
    words = [w for w in both[0].words() if w[0] not in ("[CLS]", "[SEP]")]
    assert both[0].top(2) == sorted(words, key=lambda w: -abs(w[1]))[:2]
    assert len(both[0].top(100, specials=True)) == len(both[0].words())
    with pytest.raises(InputError, match=r"top\(\) needs one sample, and this attribution has 2"):
        both.top()
    with pytest.raises(InputError, match="k=0 is not a positive integer"):
        both[0].top(0)
    with pytest.raises(InputError, match="there is no stream 'image'"):
        both[0].top(1, "image")


def test_a_third_argument_without_a_name_gets_help() -> None:
    with pytest.raises(OptionError, match=r"the third is 'gae'\. Give it by name"):
        wf.explain("a film", "sst2", "gae")
    with pytest.raises(OptionError, match=r"compare\(\) takes two .* the third is 1"):
        wf.compare("a film", "sst2", 1)


def test_a_list_shows_its_progress(
    both: wf.Attribution, capsys: pytest.CaptureFixture[str]
) -> None:
    found = wf.explain(TEXTS, progress=True)
    assert found.scores.equal(both.scores)
    assert "2/2" in capsys.readouterr().err


def test_calls_are_logged_and_not_printed(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "whyformer"):
        wf.explain("a film")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "whyformer"]
    assert "1 samples by libragrad in" in line
    assert capsys.readouterr().err == ""


def test_evaluate_is_one_import_away(tmp_path: Path) -> None:
    found = wf.evaluate(
        "sst2", TEXTS, methods=["libragrad", "random"], metrics=["auac"], out=tmp_path / "run"
    )
    assert found.methods == ("libragrad", "random")
    assert len(found.to_pandas()) == 4
    assert "libragrad" in str(found)
    assert (tmp_path / "run" / "report.html").is_file()
    again = wf.evaluate("sst2", TEXTS, methods=["libragrad", "random"], metrics=["auac"])
    assert [row["value"] for row in again.rows] == [row["value"] for row in found.rows]
    with pytest.raises(OptionError, match=r"methods='gae' is one text. Pass a list"):
        wf.evaluate("sst2", TEXTS, methods="gae")
    with pytest.raises(InputError, match="there is no data"):
        wf.evaluate(torch.nn.Linear(1, 1))


def test_audit_is_one_import_away(tmp_path: Path) -> None:
    texts = ["a dull film", "a good film"]
    found = wf.audit("terms", data=texts, terms=["dull"], draws=10, out=tmp_path / "terms")
    assert [row["top word"] for row in found.rows] == ["dull", "good"]
    assert (tmp_path / "terms" / "report.html").is_file()
    names = {"a": ["Anna", "Mary"], "b": ["Bob", "John"]}
    named = wf.audit("names", names=names, templates=["{name} plays the lead."], draws=10)
    assert sorted({row["group"] for row in named.rows}) == ["a", "b"]
    with pytest.raises(OptionError, match="there is no audit of 'words'"):
        wf.audit("words")
    with pytest.raises(OptionError, match="an audit of terms needs texts"):
        wf.audit("terms")
    with pytest.raises(OptionError, match="an audit of names takes no data"):
        wf.audit("names", data=texts)
    with pytest.raises(OptionError, match="an audit of terms has no setting 'names'"):
        wf.audit("terms", data=texts, names=names)


def test_the_answer_to_a_question_is_in_the_context(
    build: Callable[..., nn.Module], wordpiece: Any
) -> None:
    model = build("BertForQuestionAnswering", vocab_size=len(wordpiece))
    asked = {"question": "the film", "context": "a gripping film and a dull film"}
    found = wf.explain(asked, model, tokenizer=wordpiece)
    pair = wf.explain((asked["question"], asked["context"]), model, tokenizer=wordpiece)
    assert found.labels == pair.labels
    assert found.tokens is not None
    assert int(found.target) > found.tokens[0].index("[SEP]"), "never a part of the question"
    assert 0 < float(found.probability) < 1


def test_the_label_of_an_answer_is_the_same_answer_as_target() -> None:
    prompt = wf.models()["reader"].samples()[0]
    found = wf.explain(prompt, "reader")
    again = wf.explain(prompt, "reader", target=found.labels[0])
    assert again.labels == found.labels
    (said,), (before,) = again.streams["generated"].said, found.streams["generated"].said
    assert said == before[: len(said)], "a label has no end-of-text token"
    rows = found.maps["generated", "text"][0, : len(said)]
    assert torch.allclose(again.maps["generated", "text"][0], rows, atol=1e-4)


def test_a_leading_space_stays_in_the_label(gpt2: nn.Module, byte_bpe: Any) -> None:
    found = wf.explain("a gripping", gpt2, tokenizer=byte_bpe, target=" film")
    assert found.labels == (" film",)
    again = wf.explain("a gripping", gpt2, tokenizer=byte_bpe, target=found.labels[0])
    assert torch.equal(again.scores, found.scores)
    assert 'Why <strong dir="auto">\N{LEFT DOUBLE QUOTATION MARK}film' in found.to_html()

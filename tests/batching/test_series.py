"""A series of inputs: one attribution per input, in order, equal to explaining one at a time."""

from __future__ import annotations

import gc
import itertools
import sqlite3
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import whyformer as wf
from tests.wordpiece import wordpiece_of
from whyformer.batching.budget import CPU
from whyformer.batching.series import WINDOW_BATCHES, window_size
from whyformer.datasets import open_dataset
from whyformer.errors import InputError, ModelError, OptionError, SkippedWarning, TargetError

WORDS = ("a", "good", "bad", "film", "and", "dull", "story", "funny", "old", "new")
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)


@pytest.fixture
def model() -> Any:
    return wf.families()["bert"].tiny().double()


@pytest.fixture
def tokenizer() -> Any:
    return wordpiece_of(PIECES)


def texts(count: int, longest: int = 9) -> list[str]:
    """Texts of mixed lengths, no two neighbours alike."""
    words = itertools.cycle(WORDS)
    return [" ".join(itertools.islice(words, 1 + (5 * i) % longest)) for i in range(count)]


class Counted:
    """An iterator that knows how far it was read, and by which thread."""

    def __init__(self, items: Any) -> None:
        self.items = iter(items)
        self.read = 0
        self.threads: set[int] = set()

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> Any:
        item = next(self.items)
        self.read += 1
        self.threads.add(threading.get_ident())
        return item


@pytest.mark.parametrize("method", ["lrp_ah_ln", "gae", "transformer_attribution"])
@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_scores_are_those_of_one_at_a_time_in_order(
    model: Any, tokenizer: Any, method: str, batch_size: int | None
) -> None:
    given = texts(21)
    found = wf.explain(
        iter(given), model, processor=tokenizer, method=method, batch_size=batch_size
    )
    for index, (text, one) in enumerate(zip(given, found, strict=True)):
        alone = wf.explain(text, model, processor=tokenizer, method=method)
        assert one.tokens == alone.tokens
        assert one.labels == alone.labels
        assert torch.allclose(one.scores, alone.scores, atol=1e-9)
        assert torch.allclose(one.output, alone.output, atol=1e-9)
        assert one.provenance == {**alone.provenance, "index": index}


def test_a_list_is_still_one_batch(model: Any, tokenizer: Any) -> None:
    assert len(wf.explain(texts(3), model, processor=tokenizer)) == 3


@pytest.mark.usefixtures("no_comparison")
def test_batches_hold_texts_of_similar_length(
    model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: list[tuple[int, ...]] = []
    forward = model.forward

    def watched(input_ids: Any, attention_mask: Any = None, **rest: Any) -> Any:
        widths.append(tuple(attention_mask.sum(1).tolist()))
        return forward(input_ids=input_ids, attention_mask=attention_mask, **rest)

    monkeypatch.setattr(model, "forward", watched)
    list(wf.explain(iter(texts(18)), model, processor=tokenizer, batch_size=6))
    assert [len(batch) for batch in widths] == [6, 6, 6]
    assert [max(batch) for batch in widths] == [11, 8, 5]
    assert all(max(batch) - min(batch) <= 2 for batch in widths)


def test_long_texts_make_small_batches(
    model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    forward = model.forward

    def watched(input_ids: Any, attention_mask: Any = None, **rest: Any) -> Any:
        sizes.append(input_ids.numel())
        return forward(input_ids=input_ids, attention_mask=attention_mask, **rest)

    monkeypatch.setattr(model, "forward", watched)
    monkeypatch.setattr("whyformer.batching.budget.CPU", type(CPU)(samples=32, tokens=30, images=8))
    assert len(list(wf.explain(iter(texts(12)), model, processor=tokenizer))) == 12
    assert max(sizes) <= 30
    assert len(sizes) < 12


def test_reading_ahead_is_bounded_and_in_the_callers_thread(model: Any, tokenizer: Any) -> None:
    source = Counted(texts(1000, 3))
    found = wf.explain(source, model, processor=tokenizer, batch_size=2)
    assert source.read == 0
    next(found)
    assert source.read == 2 * window_size(2) == 4 * WINDOW_BATCHES
    assert source.threads == {threading.get_ident()}
    before = threading.active_count()
    found.close()
    assert threading.active_count() < before


def test_a_source_that_belongs_to_one_thread_is_read(model: Any, tokenizer: Any) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("create table t (text)")
    database.executemany("insert into t values (?)", [(text,) for text in texts(5)])
    rows = (text for (text,) in database.execute("select text from t"))
    assert len(list(wf.explain(rows, model, processor=tokenizer, batch_size=2))) == 5
    database.close()


def test_with_a_batch_of_one_little_is_read_ahead(model: Any, tokenizer: Any) -> None:
    source = Counted(itertools.repeat("a good film"))  # it never ends
    found = wf.explain(source, model, processor=tokenizer, batch_size=1)
    next(found)
    assert source.read == 2
    found.close()


@pytest.mark.slow
def test_nothing_is_held_behind_a_long_series(model: Any, tokenizer: Any) -> None:
    def alive() -> int:
        gc.collect()
        return sum(type(thing) is wf.Attribution for thing in gc.get_objects())

    most, before = 0, alive()
    for index, _ in enumerate(
        wf.explain(iter(texts(140, 3)), model, processor=tokenizer, batch_size=2)
    ):
        if index % 69 == 0:
            most = max(most, alive() - before)
    assert most <= window_size(2) + 4


def test_targets_may_be_an_iterator_a_list_or_one_for_all(model: Any, tokenizer: Any) -> None:
    given, wanted = texts(7), [0, 1, 2, 0, 1, 2, 1]

    def found(target: Any) -> list[int]:
        every = wf.explain(iter(given), model, processor=tokenizer, target=target, batch_size=3)
        return [int(one.target[0]) for one in every]

    assert found(iter(wanted)) == found(wanted) == found(torch.tensor(wanted)) == wanted
    assert found(2) == [2] * 7
    assert found(lambda output: output.logits[:, 0]) == [-1] * 7
    contrasts = (wf.contrast(one, (one + 1) % 3) for one in wanted)
    assert found(contrasts) == wanted


@pytest.mark.parametrize("wanted", [[0, 1], iter([0, 1])])
def test_too_few_targets_are_an_error_behind_those_that_have_one(
    model: Any, tokenizer: Any, wanted: Any
) -> None:
    found = wf.explain(iter(texts(3)), model, processor=tokenizer, target=wanted)
    assert [int(next(found).target[0]), int(next(found).target[0])] == [0, 1]
    with pytest.raises(TargetError, match="there are 2 targets and more inputs"):
        next(found)


def test_too_many_targets_in_a_list_are_an_error(model: Any, tokenizer: Any) -> None:
    found = wf.explain(iter(texts(2)), model, processor=tokenizer, target=[0, 1, 1])
    with pytest.raises(TargetError, match="there are 3 targets for 2 inputs"):
        list(found)


BROKEN = {
    "empty": ("  ", None, r"input 3 \('  '\): the text is only white space"),
    "no text": (17, None, r"input 3 \('17'\): the inputs are of type int"),
    "half a character": ("good \ud800", None, r"input 3 .*no character of UTF-8"),
    "too long": ("a " * 70, None, r"input 3 \('a a .*\.\.\.'\): the text has \d+ tokens"),
    "no such class": ("a film", 9, r"input 3 \('a film'\): there is no class 9"),
}


@pytest.mark.parametrize(("item", "target", "said"), BROKEN.values(), ids=BROKEN)
def test_an_input_that_cannot_be_explained_is_named(
    model: Any, tokenizer: Any, item: Any, target: Any, said: str
) -> None:
    given = [*texts(3), item, *texts(2)]

    def found(on_error: str) -> Iterator[wf.Attribution]:
        targets = [0, 0, 0, target or 0, 0, 0]
        return wf.explain(
            iter(given), model, processor=tokenizer, target=targets, on_error=on_error
        )

    strict = found("raise")
    assert [next(strict).provenance["index"] for _ in range(3)] == [0, 1, 2]
    with pytest.raises((InputError, TargetError), match=said):
        next(strict)
    with pytest.warns(SkippedWarning, match=f"left out {said}") as told:
        assert [one.provenance["index"] for one in found("skip")] == [0, 1, 2, 4, 5]
    assert len(told) == 1


def test_a_model_that_takes_no_mask_gets_its_texts_one_by_one(tokenizer: Any) -> None:
    class Maskless(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(20, 8)
            layers = [torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)]
            self.blocks = torch.nn.ModuleList(layers)
            self.head = torch.nn.Linear(8, 3)

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            states = self.embedding(input_ids)
            for block in self.blocks:
                states = block(states)
            return self.head(states[:, 0])

    model = Maskless().eval()
    given = texts(6, 4)
    found = wf.explain(iter(given), model, processor=tokenizer, method="gae")
    assert [one.scores.shape[1] for one in found] == [len(t.split()) + 2 for t in given]


def test_an_error_of_the_iterator_is_raised_after_its_inputs_are_explained(
    model: Any, tokenizer: Any
) -> None:
    def broken() -> Iterator[str]:
        yield "a good film"
        raise ConnectionError("the line is dead")

    found = wf.explain(broken(), model, processor=tokenizer)
    assert next(found).labels
    with pytest.raises(ConnectionError, match="the line is dead"):
        next(found)


def test_nothing_gives_nothing(model: Any) -> None:
    assert list(wf.explain(iter([]), model)) == []


def test_bad_settings_are_refused_at_once(model: Any) -> None:
    with pytest.raises(OptionError, match="batch_size=0 is not a positive integer"):
        wf.explain(iter(["a"]), model, batch_size=0)
    with pytest.raises(OptionError, match=r"on_error='ignore' is unknown\. Use 'raise' or 'skip'"):
        wf.explain(iter(["a"]), model, on_error="ignore")
    with pytest.raises(OptionError, match="has no option"):
        wf.explain(iter(["a"]), model, depth=3)
    with pytest.raises(
        OptionError, match=r"batch_size= needs an iterator, and one batch was given"
    ):
        wf.explain(["a"], model, batch_size=3)


def test_a_dataset_gives_its_ids(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    file = tmp_path / "my.csv"
    file.write_text("text,label\n" + "".join(f"{text},1\n" for text in texts(5)), "utf-8")
    samples = open_dataset(f"csv:{file}")
    found = list(wf.explain(samples, model, processor=tokenizer, batch_size=2))
    assert [one.provenance["id"] for one in found] == [f"all/{i}" for i in range(5)]
    alone = wf.explain(texts(5)[3], model, processor=tokenizer)
    assert torch.allclose(found[3].scores, alone.scores)


def test_arguments_of_forward_are_batches_of_their_own(model: Any) -> None:
    batches = [torch.randint(5, 15, (rows, 6)) for rows in (2, 3)]
    found = list(wf.explain(({"input_ids": ids} for ids in batches), model))
    assert [len(one) for one in found] == [2, 3]
    assert torch.allclose(found[1].scores, wf.explain(batches[1], model).scores)


def test_images_are_read_one_batch_ahead() -> None:
    source = Counted(Image.new("L", (28, 28), shade % 256) for shade in range(10 * CPU.images))
    found = wf.explain(source, method="gae")  # the bundled model that fits the first of them
    first = next(found)
    assert source.read == 2 * CPU.images
    assert first.provenance["model"] == "mnist"
    assert first.streams["image"].grid is not None
    found.close()


def test_pairs_and_single_texts_may_take_turns(model: Any, tokenizer: Any) -> None:
    given = ["a film", ("a film", "and a story"), "dull", ("old", "new")]
    found = list(wf.explain(iter(given), model, processor=tokenizer))
    assert [one.tokens[0].count("[SEP]") for one in found] == [1, 2, 1, 2]


def test_what_is_kept_is_cut_out_and_not_sorted(model: Any, tokenizer: Any) -> None:
    source = Counted(texts(200))
    found = wf.explain(source, model, processor=tokenizer, keep="states", batch_size=4)
    one = next(found)
    assert source.read == 8
    assert one.streams["text"].states.shape[:2] == one.scores.shape
    found.close()


def test_the_model_may_be_used_and_changed_between_attributions(model: Any, tokenizer: Any) -> None:
    found = wf.explain(itertools.repeat("a good film", 4), model, processor=tokenizer, batch_size=1)
    next(found)
    with torch.no_grad():
        model.classifier.weight[0, 0] = float("nan")
    with pytest.raises(ModelError, match="NaN or infinite weights"):
        next(found)


def test_a_bar_counts_on_stderr(
    model: Any, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(list(wf.explain(iter(texts(3)), model, processor=tokenizer, progress=True))) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "3/3" in shown.err
    list(wf.explain(iter(texts(3)), model, processor=tokenizer))
    assert capsys.readouterr().err == ""


def test_no_warning_comes_out_of_a_sound_series(model: Any, tokenizer: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(wf.explain(iter(texts(3)), model, processor=tokenizer, method="gae"))

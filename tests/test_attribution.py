"""The result of an explanation: frozen, indexable, readable as words, saved without pickle."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import whyformer as wf
from whyformer.attribution import FORMAT, Attribution, Layer, Stream
from whyformer.errors import InputError
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs

UNICODE = ("naïve", "漢字", "😀", 'say "hi"', "\n\t", "\u202eright", "</script>", "")


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def text(**changes: Any) -> Attribution:
    """Two sentences of five and three tokens; the second is padded."""
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    stream = Stream(
        name="text",
        scores=rand(2, 5) * mask,
        mask=mask,
        tokens=(("[CLS]", "un", "forget", "table", "!"), ("[CLS]", *UNICODE[1:3], "", "")),
        word_ids=((None, 0, 0, 0, 1), (None, 0, 1, None, None)),
        states=rand(2, 5, 4, dtype=torch.float64),
    )
    given: dict[str, Any] = {
        "method": "gae",
        "streams": {"text": stream},
        "main": "text",
        "target": torch.tensor([1, 0]),
        "output": torch.tensor([1.5, -0.25]),
        "labels": ("Positive", "négatif 😀"),
        "conservation": torch.tensor([1.0, 0.99]),
        "sinks": {"bias": rand(2), "norm_bias": rand(2) * 2},
        "layers": (
            Layer(attention=rand(2, 3, 5, 5), relevance_sum=rand(2)),
            Layer(attention=rand(2, 3, 5, 5), gradient=rand(2, 3, 5, 5), leaving=rand(2, 5, 4)),
        ),
        "maps": {("text", "text"): rand(2, 5, 5)},
        "options": {"start_layer": 0, "normalize": False, "reduce": "row", "end_layer": None},
        "provenance": {"model": "m", "versions": {"torch": "2"}, "notes": ["cut to 5 tokens"]},
    }
    return Attribution(**{**given, **changes})


def image() -> Attribution:
    """One image of 2 x 3 patches, with the pixels it was made of and their relevance."""
    stream = Stream(
        name="image",
        scores=torch.arange(6.0)[None],
        mask=torch.ones(1, 6, dtype=torch.bool),
        grid=(2, 3),
        image=rand(1, 3, 8, 12).sigmoid(),
        pixels=rand(1, 8, 12),
    )
    return Attribution("full_lrp", {"image": stream}, "image", torch.tensor([3]), rand(1), ("cat",))


def real(name: str) -> Attribution:
    """What explain() itself gives, with everything kept."""
    model = families[name].tiny()
    method = "transformer_attribution" if name == "bert" else "full_lrp"
    keep = wf.methods()[method].keeps
    return wf.explain(tiny_inputs(model), model, method=method, target=1, keep=keep)


def assert_same(one: Any, other: Any, where: str = "") -> None:
    """Equal in type, shape, dtype and every number, all the way down."""
    if isinstance(one, Tensor):
        assert other.dtype == one.dtype, where
        assert torch.equal(one, other), where
    elif hasattr(one, "keys"):
        assert list(one) == list(other) or set(one) == set(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, tuple | list):
        assert type(one) is type(other), where
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    elif isinstance(one, Attribution | Stream | Layer):
        assert type(one) is type(other), where
        for part in fields(one):
            assert_same(getattr(one, part.name), getattr(other, part.name), f"{where}.{part.name}")
    else:
        assert one == other, where
        assert type(one) is type(other), where


# -- saved and loaded -----------------------------------------------------------------------------


CASES = {
    "text": text,
    "image": image,
    "bare": lambda: text(conservation=None, sinks={}, layers=(), maps={}, options={}),
    "bert": lambda: real("bert"),
    "vit": lambda: real("vit"),
}


@pytest.mark.parametrize("case", CASES)
def test_round_trip(case: str, tmp_path: Path) -> None:
    before = CASES[case]()
    path = tmp_path / "why 漢.safetensors"
    before.save(path)
    after = wf.load(path)
    assert_same(before, after)
    assert_same(before, wf.load(str(path)))


def test_the_comparison_of_these_tests_can_fail() -> None:
    assert_same(text(), text())
    with pytest.raises(AssertionError):
        assert_same(text(), text(method="rollout"))
    with pytest.raises(AssertionError):
        assert_same(text(), text(sinks={"bias": rand(2)}))
    with pytest.raises(AssertionError):
        assert_same(text(), text(output=torch.tensor([1.5, -0.25], dtype=torch.float64)))


def test_unicode_survives(tmp_path: Path) -> None:
    stream = Stream(
        "text",
        scores=rand(1, len(UNICODE)),
        mask=torch.ones(1, len(UNICODE), dtype=torch.bool),
        tokens=(UNICODE,),
        word_ids=((0,) * len(UNICODE),),
    )
    alone: dict[str, Any] = {"conservation": None, "sinks": {}, "maps": {}, "layers": ()}
    alone |= {"target": torch.tensor([0]), "output": rand(1)}
    text(streams={"text": stream}, labels=("😀",), **alone).save(tmp_path / "a")
    assert wf.load(tmp_path / "a").tokens == (UNICODE,)


def test_a_sample_can_be_saved_on_its_own(tmp_path: Path) -> None:
    text()[1].save(tmp_path / "a")
    assert_same(text()[1], wf.load(tmp_path / "a"))


def test_saving_again_replaces(tmp_path: Path) -> None:
    image().save(tmp_path / "a")
    text().save(tmp_path / "a")
    assert_same(text(), wf.load(tmp_path / "a"))


def test_views_and_transposes_are_saved_as_they_read(tmp_path: Path) -> None:
    turned = rand(3, 2).T
    text(sinks={"a": turned[:, 0], "b": turned[:, 1]}).save(tmp_path / "a")
    assert_same(text(sinks={"a": turned[:, 0], "b": turned[:, 1]}), wf.load(tmp_path / "a"))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        text().save(tmp_path / "nowhere" / "a")


# -- files that are not ours ----------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file '.*nowhere.safetensors'"):
        wf.load(tmp_path / "nowhere.safetensors")
    with pytest.raises(InputError, match="there is no file"):
        wf.load(tmp_path)


class Bomb:
    """Unpickling it would fail the test."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was loaded",))


def write_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb()))


def write_torch(path: Path) -> None:
    torch.save({"scores": rand(2), "bomb": Bomb()}, path)


def write_cut(path: Path) -> None:
    text().save(path)
    path.write_bytes(path.read_bytes()[:-40])


STRANGERS = {
    "empty": lambda path: path.write_bytes(b""),
    "words": lambda path: path.write_text("hello there, this is no file of tensors"),
    "json": lambda path: path.write_text(json.dumps({"format": FORMAT})),
    "pickle": write_pickle,
    "torch": write_torch,
    "cut short": write_cut,
    "weights": lambda path: save_file({"w": rand(2)}, path),
    "weights with notes": lambda path: save_file({"w": rand(2)}, path, metadata={"format": "pt"}),
    "broken notes": lambda path: save_file({"w": rand(2)}, path, metadata={"whyformer": "{"}),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_a_file_that_is_not_ours(case: str, tmp_path: Path) -> None:
    STRANGERS[case](tmp_path / "a")
    with pytest.raises(InputError, match="is not an attribution saved by whyformer"):
        wf.load(tmp_path / "a")


@pytest.mark.parametrize("given", ["whyformer-attribution-99", None])
def test_a_file_of_another_format(given: str | None, tmp_path: Path) -> None:
    notes = {"whyformer": json.dumps({"format": given})}
    save_file({"w": rand(2)}, tmp_path / "a", metadata=notes)
    with pytest.raises(InputError, match=f"format {given!r}, and this version reads '{FORMAT}'"):
        wf.load(tmp_path / "a")


@pytest.mark.parametrize("notes", ["[]", "3", json.dumps({"format": FORMAT, "method": "gae"})])
def test_a_file_that_is_ours_only_by_its_label(notes: str, tmp_path: Path) -> None:
    save_file({"w": rand(2)}, tmp_path / "a", metadata={"whyformer": notes})
    with pytest.raises(InputError):
        wf.load(tmp_path / "a")


# -- frozen ---------------------------------------------------------------------------------------


def test_nothing_can_be_assigned() -> None:
    a = text()
    for owner in (a, a.streams["text"], a.layers[0]):
        for part in fields(owner):
            with pytest.raises(FrozenInstanceError):
                setattr(owner, part.name, None)
    with pytest.raises(FrozenInstanceError):
        a.note = "mine"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["streams", "sinks", "maps", "options", "provenance"])
def test_mappings_are_read_only(name: str) -> None:
    mapping = getattr(text(), name)
    with pytest.raises(TypeError):
        mapping["new"] = 1
    with pytest.raises(TypeError):
        del mapping[next(iter(mapping))]


def test_the_callers_own_mapping_is_not_shared() -> None:
    options = {"reduce": "row"}
    a = text(options=options)
    options["reduce"] = "column_sum"
    assert a.options["reduce"] == "row"


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    assert_same(copy.copy(text()), text())
    assert_same(copy.deepcopy(text()), text())
    assert_same(pickle.loads(pickle.dumps(text())), text())


# -- one sample at a time -------------------------------------------------------------------------


def test_len_and_iteration() -> None:
    a = text()
    assert len(a) == 2
    assert [one.labels for one in a] == [("Positive",), ("négatif 😀",)]
    assert all(len(one) == 1 for one in a)


def test_an_index_cuts_padding() -> None:
    a, one = text(), text()[1]
    assert one.scores.shape == (1, 3)
    assert torch.equal(one.scores[0], a.scores[1, :3])
    assert one.tokens == (("[CLS]", "漢字", "😀"),)
    stream = one.streams["text"]
    assert stream.mask.all()
    assert stream.word_ids == ((None, 0, 1),)
    assert stream.states is not None
    assert torch.equal(stream.states[0], a.streams["text"].states[1, :3])  # type: ignore[index]
    assert one.target.tolist() == [0]
    assert one.output.tolist() == [-0.25]
    assert torch.equal(one.sinks["bias"], a.sinks["bias"][1:])
    assert torch.equal(one.conservation, a.conservation[1:])  # type: ignore[index, arg-type]
    assert [len(layer.attention) for layer in one.layers] == [1, 1]  # type: ignore[arg-type]
    assert one.layers[0].gradient is None
    assert one.method == a.method
    assert one.options == a.options


def test_an_index_cuts_padding_in_front_and_in_the_middle() -> None:
    mask = torch.tensor([[False, True, False, True]])
    stream = Stream("text", scores=rand(1, 4) * mask, mask=mask, tokens=(("p", "a", "p", "b"),))
    one = text(streams={"text": stream}, labels=("x",))[0]
    assert one.tokens == (("a", "b"),)
    assert torch.equal(one.scores[0], stream.scores[0, [1, 3]])


def test_negative_and_missing_indices() -> None:
    a = text()
    assert_same(a[-1], a[1])
    assert_same(a[-2], a[0])
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"sample {index} of an attribution of 2"):
            a[index]


def test_an_index_of_an_index_changes_nothing() -> None:
    assert_same(text()[1][0], text()[1])


def test_maps_of_one_sample() -> None:
    """Axes as in the batch or without its padding, but those of this sample."""
    (found,) = text()[1].maps.values()
    whole = rand(2, 5, 5)[1:]
    assert torch.equal(found, whole) or torch.equal(found, whole[:, :3, :3])


def test_pixels_and_image_of_one_sample() -> None:
    one, stream = image()[0].streams["image"], image().streams["image"]
    assert torch.equal(one.pixels, stream.pixels)  # type: ignore[arg-type]
    assert torch.equal(one.image, stream.image)  # type: ignore[arg-type]


# -- words and grids ------------------------------------------------------------------------------


def test_words_join_pieces_and_add_their_scores() -> None:
    a = text()
    words = a[0].words()
    assert [word for word, _ in words] == ["[CLS]", "unforgettable", "!"]
    expected = [a.scores[0, 0], a.scores[0, 1:4].sum(), a.scores[0, 4]]
    assert [score for _, score in words] == pytest.approx([float(s) for s in expected])
    assert sum(score for _, score in words) == pytest.approx(float(a.scores[0].sum()))


def test_words_leave_padding_out() -> None:
    assert [word for word, _ in text()[1].words()] == ["[CLS]", "漢字", "😀"]


def test_words_of_a_batch_of_one_need_no_index() -> None:
    assert text()[0][0].words("text") == text()[0].words()


def test_neighbours_without_a_word_stay_apart() -> None:
    stream = Stream(
        "text",
        scores=torch.ones(1, 4),
        mask=torch.ones(1, 4, dtype=torch.bool),
        tokens=(("<s>", "</s>", "a", "b"),),
        word_ids=((None, None, 0, 0),),
    )
    a = text(streams={"text": stream}, labels=("x",))
    assert a.words() == [("<s>", 1.0), ("</s>", 1.0), ("ab", 2.0)]


def test_words_without_groups_are_the_tokens() -> None:
    stream = Stream(
        "text",
        scores=torch.ones(1, 2),
        mask=torch.ones(1, 2, dtype=torch.bool),
        tokens=(("a", "a"),),
    )
    assert text(streams={"text": stream}, labels=("x",)).words() == [("a", 1.0), ("a", 1.0)]


def test_words_of_a_batch() -> None:
    with pytest.raises(InputError, match=r"this attribution has 2.*a\[0\]\.words\(\)"):
        text().words()


def test_words_of_an_image() -> None:
    with pytest.raises(InputError, match="'image' has no words"):
        image().words()


def test_words_of_a_stream_that_is_not_there() -> None:
    with pytest.raises(wf.errors.WhyformerError):
        text()[0].words("audio")


def test_score_map() -> None:
    found = image().streams["image"].score_map
    assert found.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    with pytest.raises(InputError, match="'text' has no grid"):
        _ = text().streams["text"].score_map


# -- shown ----------------------------------------------------------------------------------------


def test_repr_says_what_was_explained() -> None:
    said = repr(text())
    for part in ("gae", "text", "2x5", "Positive = 1.5", "négatif 😀 = -0.25", "0.9950"):
        assert part in said
    assert "conservation" not in repr(text(conservation=None))
    assert len(said) < 200


def test_repr_of_a_large_batch_is_short() -> None:
    stream = Stream("text", scores=rand(50, 4), mask=torch.ones(50, 4, dtype=torch.bool))
    a = text(
        streams={"text": stream},
        labels=tuple(f"label {i}" for i in range(50)),
        output=rand(50),
        conservation=None,
    )
    assert "label 2" in repr(a)
    assert "label 3" not in repr(a)
    assert "..." in repr(a)


@pytest.mark.parametrize("case", ["text", "image", "bert"])
def test_to_dict_is_json_and_complete(case: str) -> None:
    a = CASES[case]()
    found = a.to_dict()
    back = json.loads(json.dumps(found, allow_nan=False))
    assert back == found, "nothing that JSON would turn into something else"
    # Layers, maps, states and pictures are tensors for save(), not numbers for a page.
    left_out = {"layers", "maps", "nodes"}  # nodes are there if they were kept
    assert set(found) == {part.name for part in fields(a)} - left_out | {"format"}
    stream = found["streams"][a.main]
    pictures = {"name", "image", "pixels", "states"}
    assert set(stream) == {part.name for part in fields(Stream)} - pictures
    assert torch.equal(torch.tensor(stream["scores"]), a.scores)
    assert torch.equal(torch.tensor(stream["mask"]), a.streams[a.main].mask)
    assert stream["tokens"] == (a.tokens and [list(row) for row in a.tokens])
    assert found["labels"] == list(a.labels)
    assert found["target"] == a.target.tolist()
    assert torch.equal(torch.tensor(found["output"]), a.output)
    assert found["sinks"] == {name: sink.tolist() for name, sink in a.sinks.items()}
    assert found["options"] == a.options
    assert found["provenance"] == a.provenance

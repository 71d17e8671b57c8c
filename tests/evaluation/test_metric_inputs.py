"""Inputs of metrics from a dataset: labels by name, masks by pixel, marked words by character."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

import whyformer as wf
from tests.evaluation.making import classifier, plan, tokenizer
from whyformer.datasets import Mask, Sample
from whyformer.errors import InputError
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.evaluation.default_metrics import default_metrics, no_classes_reason
from whyformer.evaluation.evaluate import evaluate
from whyformer.evaluation.metric_inputs import (
    classes_of,
    label_of,
    masks_of,
    rationales_of,
    regions_of,
    with_dataset_words,
)
from whyformer.inputs.prepare import prepare
from whyformer.models.families.tiny import tiny_models
from whyformer.models.load import Loaded, load_model

# -- labels ----------------------------------------------------------------------------------------

MODEL = {0: "Negative", 1: "Positive"}


@pytest.mark.parametrize(
    ("label", "name", "names", "found"),
    [
        (None, None, (), None),
        (1, None, (), 1),
        (1, "positive", ("negative", "positive"), 1),
        (0, "positive", ("positive", "negative"), 1),  # the dataset has the opposite order
        (0, None, ("positive", "negative"), 1),  # also if only the dataset has the names
        ("POSITIVE", "POSITIVE", (), 1),
        ("negative", None, (), 0),
        (1, "good", ("bad", "good"), 1),  # names that the model does not have: by number
        (0, "negative", ("negative", "neutral"), 0),  # one of the names is not the model's
    ],
)
def test_labels(label: Any, name: Any, names: tuple[str, ...], found: Any) -> None:
    assert label_of(Sample("x", "text", label, name), names, MODEL) == found


@pytest.mark.parametrize(
    ("label", "name", "names"),
    [
        (2, None, ()),
        (-1, None, ()),
        (2, "neutral", ("negative", "positive", "neutral")),
        ("meh", "meh", ()),
        ("meh", "meh", ("negative", "positive")),
        (5, "meh", ("negative", "positive")),
    ],
)
def test_labels_that_the_model_does_not_have(label: Any, name: Any, names: tuple) -> None:
    with pytest.raises(InputError, match=r"sample 'dev/7' is labelled .*Negative, Positive"):
        label_of(Sample("dev/7", "text", label, name), names, MODEL)


def test_a_model_that_names_no_classes() -> None:
    assert classes_of(Loaded(torch.nn.Linear(1, 1), None, "own")) == {}
    assert label_of(Sample("x", "text", 7), (), {}) == 7
    assert classes_of(classifier()) == {0: "negative", 1: "positive"}


# -- masks -----------------------------------------------------------------------------------------

PATCH = (slice(6, 10), slice(10, 16))  # rows and columns of the object


def scene(height: int, width: int, mode: str = "RGB") -> tuple[Any, Any]:
    """A dark image with one bright patch, and the mask of the patch."""
    shape = numpy.zeros((height, width), dtype=numpy.uint8)
    shape[PATCH] = 1
    return Image.fromarray(shape * 255).convert(mode), shape


def vit(side: int, channels: int = 3) -> torch.nn.Module:
    return tiny_models()["vit"][1](image_size=side, patch_size=4, num_channels=channels)


def seen(image: Any, loaded: Loaded) -> Any:
    """Where the model's pixels are bright."""
    pixels = prepare([image], loaded.module, loaded.processor).arguments["pixel_values"]
    return pixels[0, 0] > 0.5 * (pixels.max() + pixels.min())


@pytest.mark.parametrize(
    ("size", "processor"),
    [
        # Only resized: half as large, and twice.
        ((32, 32), transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})),
        ((16, 16), transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})),
        # The shorter side resized, then the middle cut out; odd margins on either side.
        *(
            (
                size,
                transformers.CLIPImageProcessorPil(
                    size={"shortest_edge": 16}, crop_size={"height": 12, "width": 12}
                ),
            )
            for size in ((16, 24), (16, 25), (16, 23), (32, 52), (24, 16), (27, 16))
        ),
        # A crop larger than the image: padding is neither object nor background.
        (
            (16, 24),
            transformers.CLIPImageProcessorPil(
                do_resize=False, crop_size={"height": 20, "width": 20}
            ),
        ),
        ((16, 16), None),
    ],
)
def test_masks_go_where_their_images_go(size: tuple[int, int], processor: Any) -> None:
    crop = getattr(processor, "crop_size", None) or getattr(processor, "size", None) or {}
    side = crop["height"] if crop else 16
    loaded = Loaded(vit(side), processor, "tiny")
    image, shape = scene(*size)
    (mask,) = masks_of([Sample("x", image, extras={"mask": Mask(shape)})], loaded)
    assert mask.shape == (side, side)
    assert torch.equal(mask == 1, seen(image, loaded))
    (region,) = regions_of([Sample("x", image, extras={"mask": Mask(shape)})], loaded)
    assert torch.equal(region, mask == 1)
    outside = (mask == -1).sum()
    assert outside == (side * side - 16 * 20 if side == 20 else 0)


def test_masks_of_grey_images_and_from_files(tmp_path: Path) -> None:
    image, shape = scene(16, 16, "L")
    shape[0] = 3
    image.save(tmp_path / "image.png")
    Image.fromarray(shape).save(tmp_path / "mask.png")
    processor = transformers.ViTImageProcessorPil(
        size={"height": 16, "width": 16}, image_mean=[0.1], image_std=[0.3]
    )
    loaded = Loaded(vit(16, channels=1), processor, "tiny")
    mask = Mask(tmp_path / "mask.png", foreground=(1,), ignore=(3,))
    (found,) = masks_of([Sample("x", tmp_path / "image.png", extras={"mask": mask})], loaded)
    assert torch.equal(found == 1, seen(image, loaded))
    assert (found[0] == -1).all()
    assert not (found[1:] == -1).any()


def test_masks_that_cannot_be_had(tmp_path: Path) -> None:
    image, shape = scene(16, 16)
    loaded = Loaded(vit(16), None, "tiny")
    (tmp_path / "broken.png").write_bytes(b"nothing of the kind")
    for extras, why in (
        ({}, "sample 'a/b' has no mask of the object"),
        ({"mask": Mask(shape[:8])}, r"mask of sample 'a/b' is 16 x 8 pixels and its image 16 x 16"),
        ({"mask": Mask(tmp_path / "broken.png")}, "broken.png', cannot be read"),
        ({"mask": Mask(tmp_path / "nowhere.png")}, "nowhere.png', cannot be read"),
    ):
        with pytest.raises(InputError, match=why):
            masks_of([Sample("a/b", image, extras=extras)], loaded)


def test_masks_of_images_that_are_cut_into_regions() -> None:
    loaded = load_model("lxmert_shapes")
    samples = bundled_samples(wf.models()["lxmert_shapes"])
    assert all("mask" in sample.extras for sample in samples)
    masks = masks_of(samples[:2], loaded)
    streams = wf.explain(samples[0].inputs, loaded.module, method="random").streams
    assert streams["image"].image is not None
    assert masks.shape[1:] == streams["image"].image.shape[-2:]
    assert (masks == 1).any((1, 2)).all()


# -- marked words ----------------------------------------------------------------------------------


def marked(text: Any, spans: tuple[tuple[int, int], ...], **extras: Any) -> Sample:
    document = text if isinstance(text, str) else " ".join(text)
    return Sample(
        "doc", text, extras={"tokens": tuple(document.split(" ")), "rationale": spans, **extras}
    )


def words_of(sample: Sample, reads: Any, truncation: bool = False, **changes: Any) -> Any:
    """The tokens of a sample and the dataset's word that each is part of."""
    loaded = Loaded(classifier(vocab_size=400, **changes).module, reads, "tiny")
    attribution = wf.explain(
        sample.inputs, loaded.module, method="random", processor=reads, truncation=truncation
    )
    stream = with_dataset_words(attribution, [sample], loaded).streams["text"]
    assert stream.tokens is not None
    assert stream.word_ids is not None
    return list(zip(stream.tokens[0], stream.word_ids[0], strict=True))


def test_words_are_the_datasets_own() -> None:
    found = words_of(marked("the plot is n't gripping , not un-good !", ()), tokenizer())
    assert found == [
        ("[CLS]", None),
        ("the", 0),
        ("plot", 1),
        ("is", 2),
        ("n", 3),
        ("'", 3),
        ("t", 3),
        ("grip", 4),
        ("ping", 4),
        (",", 5),
        ("not", 6),
        ("un", 7),
        ("-", 7),  # unknown to the tokenizer, shown as written
        ("good", 7),
        ("!", 8),
        ("[SEP]", None),
    ]


def test_rationales_are_spans_of_words() -> None:
    samples = [marked("a good film", ((1, 2),)), marked("bad", ((0, 1), (0, 1)))]
    assert rationales_of(samples, classifier()).tolist() == [
        [False, True, False],
        [True, False, False],
    ]
    with pytest.raises(InputError, match="sample 'x' has no marked words"):
        rationales_of([Sample("x", "a film")], classifier())


def test_a_long_document_is_cut() -> None:
    sample = marked(" ".join(["good"] * 30 + ["bad"] * 30), ((0, 2), (50, 60)))
    found = words_of(sample, tokenizer(), truncation=True)
    assert len(found) == 40
    assert [word for _, word in found] == [None, *range(38), None]
    assert rationales_of([sample], classifier()).shape == (1, 60)


def test_padding_is_part_of_no_word() -> None:
    samples = [marked("a good film", ()), marked("is not bad and the plot is good", ())]
    loaded = classifier()
    texts = [sample.inputs for sample in samples]
    attribution = wf.explain(texts, loaded.module, method="random", processor=loaded.processor)
    words = with_dataset_words(attribution, samples, loaded).streams["text"].word_ids
    assert words is not None
    assert words[0] == (None, 0, 1, 2, *[None] * 6)
    assert words[1] == (None, *range(8), None)


def test_a_question_before_the_document_has_no_words() -> None:
    pair = marked(("is it good", "not bad"), (), query="is it good")
    assert [w for _, w in words_of(pair, tokenizer())] == [*[None] * 5, 0, 1, None]


def test_two_documents_are_counted_through() -> None:
    both = marked(("a good film", "not bad"), (), query="")
    assert [w for _, w in words_of(both, tokenizer())] == [None, 0, 1, 2, None, 3, 4, None]


TEXT = "the plot is n't gripping , not bad"


def of_spaces(kind: str) -> Any:
    """A tokenizer that counts the space before a word as part of it."""
    trainer: Any
    if kind == "byte":
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        backend.post_processor = processors.ByteLevel(trim_offsets=False)
        trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False)
    else:
        backend = Tokenizer(models.Unigram())
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=60, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
        )
    backend.train_from_iterator([TEXT, "a good film the plot"] * 3, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>" if kind == "piece" else None, pad_token="the"
    )


@pytest.mark.parametrize("kind", ["byte", "piece"])
def test_the_space_before_a_word_is_not_the_word_before(kind: str) -> None:
    reads = of_spaces(kind)
    found = words_of(marked(TEXT, ()), reads)
    by_word: dict[int | None, str] = {}
    for token, word in found:
        by_word[word] = by_word.get(word, "") + token.replace("Ġ", "").replace("▁", "")
    by_word.pop(None, None)
    assert by_word == dict(enumerate(TEXT.split(" ")))


def test_words_need_a_tokenizer_that_tells_places() -> None:
    sample = marked("a good film", ())
    loaded = classifier()
    attribution = wf.explain(
        "a good film", loaded.module, method="random", processor=loaded.processor
    )

    class Slow:
        is_fast = False

        def __call__(self, text: str) -> Any:
            return None

        def convert_ids_to_tokens(self, ids: Any) -> Any:
            return None

    with pytest.raises(InputError, match="fast"):
        with_dataset_words(attribution, [sample], Loaded(loaded.module, Slow(), "tiny"))


def test_marked_words_are_found_by_a_perfect_attribution(tmp_path: Path) -> None:
    # In a whole run: the top word of the dataset, however the tokenizer splits it.
    sample = marked("the plot is n't gripping", ((3, 4),))
    results = evaluate(
        classifier(),
        [sample],
        plan(("random",), ("token_f1",), options={"token_f1": {"k": (1, 5)}}),
        tmp_path,
        report=False,
    )
    curve = results.rows[0]["curve"]
    assert curve[0] in (0.0, 1.0)
    assert curve[1] == pytest.approx(2 * 1 / (5 + 1))  # all five words, one of them marked


# -- which metrics fit -----------------------------------------------------------------------------


def test_metrics_that_fit() -> None:
    found, why = default_metrics(classifier(), [Sample("x", "a good film")])
    assert why == ""
    assert "auac" in found
    assert "segmentation" not in found
    found, _ = default_metrics(classifier(), [marked("a good film", ())])
    assert "token_f1" in found
    image, shape = scene(16, 16)
    found, _ = default_metrics(
        Loaded(vit(16), None, "tiny"), [Sample("x", image, extras={"mask": Mask(shape)})]
    )
    assert {"segmentation", "pointing_game", "auac"} <= set(found)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("caption_shapes", "generates text"),
        ("clip_shapes", "one number"),
        ("detr_shapes", "object queries"),
    ],
)
def test_models_that_answer_otherwise(name: str, why: str) -> None:
    loaded = load_model(name)
    samples = bundled_samples(wf.models()[name])
    assert why in no_classes_reason(loaded, samples[0])
    found, reason = default_metrics(loaded, samples)
    assert why in reason
    assert "conservation" in found
    assert "auac" not in found


def test_a_model_without_a_head_answers_nothing() -> None:
    module = transformers.BertModel(classifier().module.config).eval()
    why = no_classes_reason(Loaded(module, tokenizer(), "tiny"), Sample("x", "a good film"))
    assert "no head" in why


@pytest.mark.parametrize("name", list(wf.models()))
def test_bundled_samples_are_labelled_with_classes_or_not_at_all(name: str) -> None:
    samples = bundled_samples(wf.models()[name])
    assert samples
    assert len({sample.id for sample in samples}) == len(samples)
    classes = classes_of(load_model(name))
    labels = [label_of(sample, (), classes) for sample in samples]
    assert any(label is not None for label in labels) == (name in ANSWERED)


ANSWERED = ("lxmert_shapes", "visualbert_shapes")

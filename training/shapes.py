"""Shared by the scripts that train on scenes: options, pixels, words, stored samples."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy
import torch
from PIL import Image
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from training import common
from whyformer.reproduce import scenes
from whyformer.reproduce.scenes import Question, Scene

SIDE = 96  # pixels that the models read, in both directions
CHECKPOINT = "last.safetensors"
LICENCE = "the licence of whyformer, Apache-2.0; so are the scenes, which it draws itself"
PAD, UNKNOWN = "[PAD]", "[UNK]"
NOTHING = len(scenes.LABELS)  # the label of a cell without a shape

# Scenes to measure progress on have numbers from here on; they are not the held-out scenes.
PROGRESS = 500_000_000
# Numbers of the sample scenes that are stored with the models.
SAMPLES = 2_000_000_000


def arguments(
    description: str | None, name: str, *, count: int, epochs: int, batch: int, peak: float
) -> argparse.Namespace:
    """Return the options of a script that trains one model on `count` scenes."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add_options(parser, name, count=count, epochs=epochs, batch=batch, peak=peak)
    return parser.parse_args()


def add_options(
    parser: argparse.ArgumentParser,
    name: str,
    *,
    count: int,
    epochs: int,
    batch: int,
    peak: float,
) -> None:
    """Add the options of every script that trains on scenes."""
    parser.add_argument("--scenes", type=int, default=count, help="scenes to train on")
    parser.add_argument("--epochs", type=int, default=epochs)
    common.add_options(parser, name, batch=batch, peak=peak)


def draw_scenes(number: int, count: int) -> list[Scene]:
    """Return `count` scenes, starting with `number`."""
    return list(scenes.scenes(number, count))


def pixels(drawings: Sequence[Scene], side: int = SIDE) -> Tensor:
    """Return the scenes as bytes (count, 3, side, side), resized as an image processor does."""
    size = (side, side)
    shown = numpy.stack(
        [
            numpy.asarray(drawing.render().resize(size, Image.Resampling.BILINEAR))
            for drawing in drawings
        ]
    )
    return torch.from_numpy(shown).permute(0, 3, 1, 2).contiguous()


def cell_labels(drawings: Sequence[Scene], cells: int, least: float = 0.15) -> Tensor:
    """Return the label of each cell of a grid (count, cells * cells), NOTHING for an empty cell.

    A cell has the label of the shape whose box covers most of it, if it covers at least `least`.
    """
    edges = numpy.linspace(0, scenes.SIDE, cells + 1)
    low, high = edges[:-1], edges[1:]
    found = numpy.full((len(drawings), cells, cells), NOTHING)
    for i, drawing in enumerate(drawings):
        best = numpy.full((cells, cells), least * (scenes.SIDE / cells) ** 2)
        for shape in drawing.shapes:
            x0, y0, x1, y1 = shape.box
            across = numpy.clip(numpy.minimum(high, x1) - numpy.maximum(low, x0), 0, None)
            down = numpy.clip(numpy.minimum(high, y1) - numpy.maximum(low, y0), 0, None)
            covered = numpy.outer(down, across)
            found[i][covered > best] = scenes.LABELS.index(shape.label)
            best = numpy.maximum(best, covered)
    return torch.from_numpy(found).reshape(len(drawings), -1)


def shuffled_indices(
    count: int, size: int, epochs: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Yield batches of shuffled indices, epoch by epoch, without an incomplete last batch."""
    for _ in range(epochs):
        order = torch.randperm(count, generator=generator)
        yield from order[: count // size * size].split(size)


def words() -> list[str]:
    """Return all words and punctuation marks of questions and captions."""
    texts = [
        *(scenes.COLOUR_QUESTIONS + scenes.KIND_QUESTIONS + scenes.PRESENCE_QUESTIONS),
        *scenes.ANSWERS,
        "a colour, a shape and a thing",
    ]
    kept = (re.sub(r"\{.*?\}", " ", text) for text in texts)
    return sorted({word for text in kept for word in re.findall(r"\w+|[^\w\s]", text)})


def build_tokenizer(first: str, last: str, length: int, *, types: bool) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words between the tokens `first` and `last`, lower-casing.

    With `types` it also returns token_type_ids.
    """
    special = [PAD, UNKNOWN, first, last]
    vocabulary = {word: i for i, word in enumerate([*special, *words()])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(token, vocabulary[token]) for token in (first, last)],
    )
    ends = ("cls_token", "sep_token") if types else ("bos_token", "eos_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNKNOWN,
        model_max_length=length,
        model_input_names=["input_ids", *(["token_type_ids"] if types else []), "attention_mask"],
        **dict(zip(ends, (first, last), strict=True)),
    )


def store_processor(folder: Path, kind: str, **more: object) -> None:
    """Write what AutoImageProcessor needs to `folder`; Pillow alone is enough for it."""
    settings: dict[str, object] = {
        "image_processor_type": kind,
        "do_resize": True,
        "size": {"height": SIDE, "width": SIDE},
        "resample": int(Image.Resampling.BILINEAR),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    common.write_json(folder / "preprocessor_config.json", settings | more)


def normalise(shown: Tensor) -> Tensor:
    """Return pixels in -1..1 from bytes, as the stored image processors do."""
    return (shown.float() / 255 - 0.5) / 0.5


def store_samples(folder: Path, count: int = 6) -> list[tuple[str, Scene]]:
    """Write the sample scenes to `folder` as PNG; return their file names and scenes."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = []
    for i, drawing in enumerate(draw_scenes(SAMPLES, count)):
        name = f"scene{i}.png"
        drawing.render().save(folder / name, optimize=True)
        stored.append((name, drawing))
    return stored


def store_questions(folder: Path) -> None:
    """Write the sample scenes, and questions.json: questions and the boxes of their shapes.

    `about` is the box (x0, y0, x1, y1) in pixels of the stored image.
    """
    questions = [
        {
            "image": name,
            "text": question.text,
            "answer": question.answer,
            "about": list(drawing.shapes[question.about].box),
        }
        for name, drawing in store_samples(folder)
        for question in drawing.questions()
        if question.about is not None
    ]
    common.write_json(folder / "questions.json", questions)


def all_questions(drawings: Sequence[Scene]) -> list[tuple[int, Question]]:
    """Return every question about every scene, with the index of the scene."""
    return [(i, question) for i, drawing in enumerate(drawings) for question in drawing.questions()]

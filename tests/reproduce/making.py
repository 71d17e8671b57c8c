"""Small files in the datasets' published formats, recipes that take a second, and tiny models."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy
import transformers

from tests.audit.making import classifier, wordpiece
from whyformer.reproduce.recipes import Recipe

RINGS = ("CCO", "c1ccccc1Br", "C[NH3+]", "CC(Cl)N", "OCC", "C%12CC%12", "N#CC", "CSC")
BACE = Recipe("bace", "bace:bace", "smiles", "fold", "fold", batch=4, peak=1e-3)
MNIST = Recipe("mnist", "mnist:mnist", "digits", "train", "test", batch=8, peak=2e-3)
EMOTION = Recipe(
    "emotion", "tweeteval:tweeteval/emotion", "minilm", "train", "test", batch=4, peak=1e-3
)
TINY = (BACE, MNIST, EMOTION)


def molecules(data: Path, count: int = 30) -> Path:
    """bace/bace.csv of so many molecules, every third active."""
    rows = [f"{'C' * (i // 8)}{RINGS[i % 8]},{int(i % 3 == 0)}" for i in range(count)]
    return _written(data / "bace" / "bace.csv", "\n".join(["mol,Class", *rows]).encode())


def digits(data: Path, train: int = 20, test: int = 6) -> Path:
    """mnist/ of squares that are the brighter the larger their digit, in idx files."""
    for name, count in (("train", train), ("t10k", test)):
        images = numpy.zeros((count, 28, 28), numpy.uint8)
        labels = numpy.arange(count, dtype=numpy.uint8) % 10
        images[:, 4:20, 4:20] = (25 * labels + 5)[:, None, None]
        head = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28)
        _written(data / "mnist" / f"{name}-images-idx3-ubyte", head + images.tobytes())
        head = struct.pack(">4BI", 0, 0, 8, 1, count)
        _written(data / "mnist" / f"{name}-labels-idx1-ubyte", head + labels.tobytes())
    return data / "mnist"


def tweets(data: Path) -> Path:
    """tweeteval/emotion of three labels; one tweet of the test is empty."""
    folder = data / "tweeteval" / "emotion"
    _written(folder / "mapping.txt", b"0\tanger\n1\tjoy\n2\tsadness\n")
    sentences = [
        "the film is bad",
        "good film and good",
        "it was dull",
        "i saw anna",
        "mary was not it",
    ]
    for split, texts in (("train", sentences * 3), ("test", ["", *sentences])):
        labels = "\n".join(str(i % 3) for i in range(len(texts)))
        _written(folder / f"{split}_text.txt", ("\n".join(texts) + "\n").encode())
        _written(folder / f"{split}_labels.txt", (labels + "\n").encode())
    return folder


def base(folder: Path, **changes: Any) -> Path:
    """A tiny BERT with dropout, whose tokenizer pads and cuts by itself, as MiniLM's does."""
    model = classifier(hidden_dropout_prob=0.1, initializer_range=0.1, **changes)
    model.save_pretrained(folder)  # type: ignore[operator]
    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.enable_padding(length=6)
    tokenizer.backend_tokenizer.enable_truncation(6)
    tokenizer.save_pretrained(folder)
    return folder


# -- questions about images ------------------------------------------------------------------------

QUESTIONS = ("is it good", "what was the film by anna", "is the film dull", "was it bad")
SIZES = ((480, 640), (100, 50), (333, 500), (64, 64))  # height, width
WIDTH = 12  # numbers of a region, as the tiny models take them


def regions(image: int, count: int = 5) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Features (count, 12) and boxes (count, 4) in pixels."""
    drawn = numpy.random.default_rng(image)
    height, width = SIZES[image - 1]
    corners = drawn.uniform((0, 0, 0.5, 0.5), (0.5, 0.5, 1, 1), (count, 4))
    boxes = corners * (width, height, width, height)
    features = drawn.standard_normal((count, WIDTH))
    return features.astype(numpy.float32), boxes.astype(numpy.float32)


def questions(data: Path, counts: tuple[int, ...] = (5, 5, 5, 5)) -> Path:
    """vqa/: four questions, their answers, and regions.tsv as bottom-up attention writes it."""
    folder = data / "vqa"
    asked = [
        {"question_id": 10 * i, "image_id": i, "question": text}
        for i, text in enumerate(QUESTIONS, 1)
    ]
    answered = [
        {
            "question_id": one["question_id"],
            "image_id": one["image_id"],
            "answer_type": "other",
            "multiple_choice_answer": "yes",
            "answers": [{"answer": "yes", "answer_confidence": "yes", "answer_id": 1}],
        }
        for one in asked
    ]
    for name, key, rows in (
        ("v2_OpenEnded_mscoco_val2014_questions.json", "questions", asked),
        ("v2_mscoco_val2014_annotations.json", "annotations", answered),
    ):
        _written(folder / name, json.dumps({key: rows}).encode())
    lines = []
    for image, count in enumerate(counts, 1):
        features, boxes = regions(image, count)
        height, width = SIZES[image - 1]
        cells = [*map(str, (image, width, height, count)), _base64(boxes), _base64(features)]
        lines.append("\t".join(cells))
    _written(folder / "regions.tsv", ("\n".join(lines) + "\n").encode())
    return folder


def answerer(folder: Path, family: str) -> Path:
    """A tiny LXMERT or VisualBERT with a tokenizer; its config names no answer."""
    from whyformer.models.families.tiny import tiny_models

    model: Any = tiny_models()[family][1]()
    model.save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return folder


def loaded_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, as anybody would load it."""
    return transformers.AutoTokenizer.from_pretrained(folder)


def _base64(values: numpy.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _written(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file

"""The inputs bundled with a model, as samples to evaluate on."""

from __future__ import annotations

import json
from typing import Any

import numpy
from PIL import Image

from whyformer.datasets import Mask, Sample
from whyformer.models.bundled import QUESTIONS, BundledModel


def bundled_samples(model: BundledModel) -> list[Sample]:
    """Return the samples of a bundled model: questions with their answers and object masks.

    Args:
        model: One of `whyformer.models()`.
    """
    place = model.folder / model.samples_path
    if len(model.streams) < 2:
        return [Sample(f"{model.name}/{i}", inputs) for i, inputs in enumerate(model.samples())]
    questions: list[dict[str, Any]] = json.loads((place / QUESTIONS).read_text(encoding="utf-8"))
    config = json.loads((model.folder / "config.json").read_text(encoding="utf-8"))
    classes = config.get("label2id", {})
    found = []
    for i, (question, inputs) in enumerate(zip(questions, model.samples(), strict=True)):
        extras: dict[str, Any] = {}
        if "about" in question:
            with Image.open(place / question["image"]) as image:
                shape = numpy.zeros((image.height, image.width), dtype=numpy.uint8)
            left, top, right, bottom = question["about"]
            shape[top:bottom, left:right] = 1
            extras["mask"] = Mask(shape)
        answer = question.get("answer") if question.get("answer") in classes else None
        found.append(Sample(f"{model.name}/{i}", inputs, answer, answer, extras))
    return found

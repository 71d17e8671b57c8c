"""Saved attributions with other bytes, facts or tensors."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save

import whyformer as wf
from tests.fuzz.json_like import drawing, json_like
from tests.fuzz.mutate import json_bytes, mutate_bytes, mutate_json

FILE = "a.safetensors"
DTYPES = (torch.float32, torch.int64, torch.bool, torch.float16)
Tensors = dict[str, torch.Tensor]


@cache
def _saved() -> tuple[dict[str, Any], Tensors]:
    """The facts and tensors of a saved attribution."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / FILE
        wf.explain("a gripping film", method="gae", keep="attention").save(file)
        with safe_open(str(file), "pt") as opened:
            facts = json.loads(opened.metadata()["whyformer"])
            return facts, {n: opened.get_tensor(n).clone() for n in opened.keys()}  # noqa: SIM118


@cache
def _similar_facts() -> Callable[[random.Random], Any]:
    return drawing(json_like(_saved()[0]))


def make_bytes(draw: random.Random, folder: Path) -> None:
    """Other bytes."""
    facts, tensors = _saved()
    content = save(tensors, {"whyformer": json.dumps(facts)})
    (folder / FILE).write_bytes(mutate_bytes(content, draw))


def make_facts(draw: random.Random, folder: Path) -> None:
    """One other fact, or another tensor."""
    facts, tensors = _saved()
    if draw.random() < 0.3:
        tensors = _other_tensor(tensors, draw)
    _write(mutate_json(facts, draw), tensors, folder)


def make_similar(draw: random.Random, folder: Path) -> None:
    """Several other facts, and perhaps another tensor."""
    _, tensors = _saved()
    if draw.random() < 0.2:
        tensors = _other_tensor(tensors, draw)
    _write(_similar_facts()(draw), tensors, folder)


def _other_tensor(tensors: Tensors, draw: random.Random) -> Tensors:
    name = draw.choice([*tensors])
    shape = [draw.randrange(4) for _ in range(draw.randrange(4))]
    return {**tensors, name: torch.ones(shape).to(draw.choice(DTYPES))}


def _write(facts: Any, tensors: Tensors, folder: Path) -> None:
    text = json_bytes(facts).decode("utf-8", "replace")
    (folder / FILE).write_bytes(save(tensors, {"whyformer": text}))


def read(folder: Path) -> None:
    """Load an attribution and use it as users do."""
    found = wf.load(folder / FILE)
    for one in found:
        one.words()
    for view in ("json", "html"):
        found.render(view)

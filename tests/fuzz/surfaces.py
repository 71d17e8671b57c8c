"""What the fuzzer feeds: readers, saved attributions, images, model folders, command lines, HTTP.

A surface takes a source of random numbers and a folder, and reads one damaged thing. It may raise
errors of whyformer and no others.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import save
from typer.testing import CliRunner

import whyformer as wf
from tests.datasets.test_damage import FORMATS
from tests.fuzz.mutate import TEXTS, json_bytes, mutate_bytes, mutate_json
from whyformer.cli.app import application
from whyformer.datasets import open_dataset
from whyformer.explorer.catalogue import Catalogue, catalogue
from whyformer.explorer.explain_request import FIELDS, read_request
from whyformer.explorer.limits import Limits
from whyformer.inputs.images import open_image
from whyformer.models.families import families
from whyformer.models.load import load_folder
from whyformer.models.weight_files import read_shards

Surface = Callable[[random.Random, Path], None]


class ForeignError(Exception):
    """A command ended in an error that is not whyformer's."""


@cache
def _saved() -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The facts and tensors of a saved attribution."""
    from tempfile import TemporaryDirectory

    from safetensors import safe_open

    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.safetensors"
        wf.explain("a gripping film", method="gae", keep="attention").save(file)
        with safe_open(str(file), "pt") as opened:
            facts = json.loads(opened.metadata()["whyformer"])
            return facts, {n: opened.get_tensor(n).clone() for n in opened.keys()}  # noqa: SIM118


def _use(file: Path) -> None:
    """Load an attribution and use it as users do."""
    found = wf.load(file)
    for one in found:
        one.words()
    for view in ("json", "html"):
        found.render(view)


def attribution_bytes(draw: random.Random, folder: Path) -> None:
    """A saved attribution with other bytes."""
    facts, tensors = _saved()
    file = folder / "a.safetensors"
    file.write_bytes(mutate_bytes(save(tensors, {"whyformer": json.dumps(facts)}), draw))
    _use(file)


def attribution_facts(draw: random.Random, folder: Path) -> None:
    """A saved attribution with other facts or tensors."""
    facts, tensors = _saved()
    facts = mutate_json(facts, draw)
    if draw.random() < 0.3:
        name = draw.choice([*tensors])
        shape = [draw.randrange(4) for _ in range(draw.randrange(4))]
        dtype = draw.choice((torch.float32, torch.int64, torch.bool, torch.float16))
        tensors = {**tensors, name: torch.ones(shape).to(dtype)}
    file = folder / "a.safetensors"
    file.write_bytes(save(tensors, {"whyformer": json_bytes(facts).decode("utf-8", "replace")}))
    _use(file)


def dataset_file(draw: random.Random, folder: Path) -> None:
    """A dataset in a published format with other bytes."""
    name = draw.choice([*FORMATS])
    file, content, beside = FORMATS[name]
    for other, value in beside.items():
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_bytes(value.encode() if isinstance(value, str) else value)
    Image.new("RGB", (4, 3)).save(folder / "a.jpg")
    (folder / file).write_bytes(mutate_bytes(content.encode(), draw))
    for sample in open_dataset(f"{name}:{folder}", on_error="skip"):
        for thing in sample.extras.get("objects", ()):
            thing.mask()


@cache
def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": ["a", "b"] * 50, "label": [0, 1] * 50}), out)
    return out.getvalue()


def parquet_file(draw: random.Random, folder: Path) -> None:
    """A Parquet file with other bytes."""
    (folder / "all.parquet").write_bytes(mutate_bytes(_parquet(), draw))
    list(open_dataset(f"parquet:{folder}", on_error="skip"))


def archive(draw: random.Random, folder: Path) -> None:
    """Gzipped MNIST files with other bytes, or with more in them than they state."""
    images = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(8)
    labels = struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes(2)
    if draw.random() < 0.01:
        labels += bytes(50_000_000)
    for name, data in (("images-idx3", images), ("labels-idx1", labels)):
        inside = mutate_bytes(data, draw) if draw.random() < 0.3 else data
        packed = gzip.compress(inside, 1)
        packed = mutate_bytes(packed, draw) if draw.random() < 0.6 else packed
        (folder / f"t10k-{name}-ubyte.gz").write_bytes(packed)
    list(open_dataset(f"mnist:{folder}", on_error="skip"))


@cache
def _pictures() -> tuple[bytes, ...]:
    made = []
    for form in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"):
        out = io.BytesIO()
        Image.new("RGB", (9, 7), (200, 30, 60)).save(out, form)
        made.append(out.getvalue())
    return tuple(made)


def image(draw: random.Random, folder: Path) -> None:
    """An image file with other bytes."""
    file = folder / "a.png"
    file.write_bytes(mutate_bytes(draw.choice(_pictures()), draw))
    open_image(file, "RGB")


def index(draw: random.Random, folder: Path) -> None:
    """An index of weights with other entries or bytes."""
    content = {"metadata": {"total_size": 1}, "weight_map": {"a": "model-1.safetensors"}}
    changed = json_bytes(mutate_json(content, draw))
    file = folder / "model.safetensors.index.json"
    file.write_bytes(mutate_bytes(changed, draw) if draw.random() < 0.3 else changed)
    read_shards(file)


@cache
def _model() -> dict[str, bytes]:
    """The files of a tiny model."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        build: Any = families["bert"].tiny
        build().save_pretrained(folder)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def model_folder(draw: random.Random, folder: Path) -> None:
    """A model whose config or weights were changed."""
    files = dict(_model())
    if draw.random() < 0.8:
        files["config.json"] = json_bytes(mutate_json(json.loads(files["config.json"]), draw))
    else:
        files["model.safetensors"] = mutate_bytes(files["model.safetensors"], draw)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    load_folder(folder)


WORDS = (
    "explain", "compare", "methods", "models", "evaluate", "audit", "recommend", "--model", "sst2",
    "--method", "gae", "--target", "1", "--json", "--html", "out.html", "--input", "x.csv",
    "--text", "--help", "-", "--", "--batch-size", "-1", "0", "1e9", "~", ".", "..", "/dev/null",
    "no such", *TEXTS,
)  # fmt: skip
# Commands that would really run a model for long are left to their own tests.
CHEAP = ("methods", "models", "families", "metrics", "datasets", "explain", "compare")


def command_line(draw: random.Random, folder: Path) -> None:
    """A command line of random words."""
    words = [
        draw.choice(WORDS).encode("utf-8", "replace").decode() for _ in range(draw.randint(0, 5))
    ]
    words = [word.replace("\0", "?") for word in words]  # no shell can pass it
    ran = CliRunner().invoke(application(), [draw.choice(CHEAP), *words], input="")
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ForeignError(repr(ran.exception)) from ran.exception


@cache
def _offered() -> Catalogue:
    return catalogue()


def request(draw: random.Random, folder: Path) -> None:
    """The body of a request to the explorer."""
    body: dict[str, Any] = {"model": "sst2", "methods": ["gae"], "text": "a film", "target": ""}
    body = mutate_json(body, draw)
    if isinstance(body, dict) and draw.random() < 0.5:
        body[draw.choice(sorted(FIELDS))] = mutate_json(None, draw)
    data = json_bytes(body)
    read_request(mutate_bytes(data, draw) if draw.random() < 0.3 else data, _offered(), Limits())


SURFACES: dict[str, tuple[Surface, int]] = {  # and how often each is tried
    "attribution_bytes": (attribution_bytes, 10),
    "attribution_facts": (attribution_facts, 10),
    "dataset_file": (dataset_file, 20),
    "parquet_file": (parquet_file, 10),
    "archive": (archive, 10),
    "image": (image, 20),
    "index": (index, 15),
    "model_folder": (model_folder, 1),
    "command_line": (command_line, 1),
    "request": (request, 15),
}

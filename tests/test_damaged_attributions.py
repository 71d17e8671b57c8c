"""Files of attributions that were damaged or made up: refused by `load`, or safe to use."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import whyformer as wf
from tests.test_attribution import image, text
from whyformer.attribution import Attribution
from whyformer.errors import InputError, WhyformerError

STRANGE: tuple[Any, ...] = (
    None,
    -1,
    0,
    10**9,
    1.5,
    True,
    "",
    "x",
    "<b>",
    [],
    [[]],
    {},
    [None],
    "é",
)
WIDTHS = (torch.bool, torch.int64, torch.float64, torch.float16, torch.complex64)
CASES = {"text": text, "image": image}


@pytest.fixture(scope="module", params=CASES)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / f"{request.param}.safetensors"
    CASES[request.param]().save(path)
    return path


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with safe_open(path, framework="pt") as file:
        plain = json.loads(file.metadata()["whyformer"])
        return plain, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def change(value: Any, draw: random.Random) -> Any:
    """The value with one entry somewhere inside replaced, left out or doubled."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(sorted(value))
        if draw.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: change(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        at = draw.randrange(len(value))
        if draw.random() < 0.3:
            return [*value[:at], *value[at : at + 1] * draw.choice((0, 2)), *value[at + 1 :]]
        return [*value[:at], change(value[at], draw), *value[at + 1 :]]
    return draw.choice(STRANGE)


def use(found: Attribution) -> None:
    """What people do with an attribution."""
    found.to_html()
    found.to_dict()
    found.render("terminal")
    for one in found:
        if one.streams[one.main].tokens:
            one.words()


def load_and_use(path: Path) -> bool:
    """Whether the file was accepted; only our errors may end it."""
    start = time.monotonic()
    try:
        use(wf.load(path))
    except WhyformerError:
        return False
    finally:
        assert time.monotonic() - start < 30
    return True


@pytest.mark.parametrize("seed", range(80))
def test_changed_facts(saved: Path, tmp_path: Path, seed: int) -> None:
    plain, tensors = read(saved)
    changed = change(plain, random.Random(seed))
    save_file(tensors, tmp_path / "a", metadata={"whyformer": json.dumps(changed)})
    load_and_use(tmp_path / "a")


@pytest.mark.parametrize("seed", range(60))
def test_changed_tensors(saved: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    plain, tensors = read(saved)
    key = draw.choice(sorted(tensors))
    value = tensors[key]
    ways = (
        lambda: tensors.pop(key),
        lambda: tensors.update({key: value[:0]}),
        lambda: tensors.update({key: value[None].contiguous()}),
        lambda: tensors.update({key: value.flatten()}),
        lambda: tensors.update({key: value.to(draw.choice(WIDTHS))}),
        lambda: tensors.update({f"{key}/more": value.clone()}),
        lambda: tensors.update({key.replace("/", "//", 1): tensors.pop(key)}),
    )
    draw.choice(ways)()
    save_file(tensors, tmp_path / "a", metadata={"whyformer": json.dumps(plain)})
    load_and_use(tmp_path / "a")


@pytest.mark.parametrize("seed", range(60))
def test_changed_bytes(saved: Path, tmp_path: Path, seed: int) -> None:
    draw, content = random.Random(seed), bytearray(saved.read_bytes())
    for _ in range(draw.randint(1, 6)):
        content[draw.randrange(min(len(content), 4000))] = draw.randrange(256)
    (tmp_path / "a").write_bytes(content)
    load_and_use(tmp_path / "a")


def test_a_number_of_layers_that_the_file_does_not_have(saved: Path, tmp_path: Path) -> None:
    plain, tensors = read(saved)
    plain["layers"] = 10**9
    save_file(tensors, tmp_path / "a", metadata={"whyformer": json.dumps(plain)})
    with pytest.raises(InputError, match="number of layers"):
        wf.load(tmp_path / "a")


def test_a_file_that_is_as_it_was_is_used(saved: Path) -> None:
    assert load_and_use(saved)

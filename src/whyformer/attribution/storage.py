"""Save attributions to safetensors files, load them, and turn them into plain data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from whyformer.attribution.attribution import Attribution
from whyformer.attribution.layer import Layer
from whyformer.attribution.nodes import Nodes
from whyformer.attribution.stream import Stream
from whyformer.attribution.trust import Trust
from whyformer.attribution.validation import check_attribution, count_layers
from whyformer.attribution.viewable import check_folder
from whyformer.errors import InputError

FORMAT = "whyformer-attribution-1"

_STREAM_PARTS = tuple(f.name for f in fields(Stream) if f.name != "name")
_LAYER_PARTS = tuple(f.name for f in fields(Layer))
_NODE_PARTS = tuple(f.name for f in fields(Nodes))


def plain_data(attribution: Attribution) -> dict[str, Any]:
    """Return the attribution without layers and maps as lists, strings and numbers.

    Nodes are there if they were kept.
    """
    a = attribution
    nodes = {stack: found.to_dict() for stack, found in a.nodes.items()}
    return {
        "format": FORMAT,
        "method": a.method,
        "main": a.main,
        "target": a.target.tolist(),
        "labels": list(a.labels),
        "output": a.output.tolist(),
        "conservation": None if a.conservation is None else a.conservation.tolist(),
        "probability": None if a.probability is None else _finite_list(a.probability),
        "sinks": {name: sink.tolist() for name, sink in a.sinks.items()},
        "streams": {
            name: {
                "scores": stream.scores.tolist(),
                "mask": stream.mask.tolist(),
                "tokens": stream.tokens and [list(t) for t in stream.tokens],
                "word_ids": stream.word_ids and [list(w) for w in stream.word_ids],
                "grid": stream.grid and list(stream.grid),
                "deciding": None if stream.deciding is None else stream.deciding.tolist(),
                "errors": None if stream.errors is None else stream.errors.tolist(),
                "said": stream.said and [list(s) for s in stream.said],
                "roles": stream.roles and [[list(r) for r in row] for row in stream.roles],
                "probabilities": None
                if stream.probabilities is None
                else stream.probabilities.tolist(),
                "spans": stream.spans and [[list(s) for s in row] for row in stream.spans],
            }
            for name, stream in a.streams.items()
        },
        **({"nodes": nodes} if nodes else {}),
        "options": dict(a.options),
        "provenance": dict(a.provenance),
        "trust": a.trust.to_dict(),
    }


def _finite_list(values: Tensor) -> list[float | None]:
    """The values, None instead of NaN, which JSON does not have."""
    return [value if value == value else None for value in values.tolist()]


def save(attribution: Attribution, path: str | Path) -> None:
    """Write one safetensors file: tensors unchanged, everything else as JSON metadata."""
    a = attribution
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {"format": FORMAT}

    def put(key: str, value: Any) -> None:
        if isinstance(value, Tensor):
            tensors[key] = value.detach().cpu().contiguous().clone()
        elif value is not None:
            plain[key] = value

    for item in ("method", "main", "labels", "target", "output", "conservation", "probability"):
        put(item, getattr(a, item))
    plain["options"], plain["provenance"] = dict(a.options), dict(a.provenance)
    plain["trust"] = a.trust.to_dict()
    plain["streams"] = list(a.streams)
    for name, stream in a.streams.items():
        for part in _STREAM_PARTS:
            put(f"streams/{name}/{part}", getattr(stream, part))
    for name, sink in a.sinks.items():
        put(f"sinks/{name}", sink)
    for (asking, answering), value in a.maps.items():
        put(f"maps/{asking}/{answering}", value)
    plain["layers"] = len(a.layers)
    for i, layer in enumerate(a.layers):
        for part in _LAYER_PARTS:
            put(f"layers/{i}/{part}", getattr(layer, part))
    plain["nodes"] = list(a.nodes)
    for stack, nodes in a.nodes.items():
        for part in _NODE_PARTS:
            put(f"nodes/{stack}/{part}", getattr(nodes, part))
    check_folder(path)
    try:
        save_file(tensors, str(path), metadata={"whyformer": json.dumps(plain)})
    except SafetensorError as error:
        raise InputError(
            f"cannot write {str(path)!r}: {str(error).partition('I/O error: ')[2] or error}",
            argument="path",
            remedy="Free some space, or choose another path",
        ) from error


def load(path: str | Path) -> Attribution:
    """Read an attribution that `Attribution.save` wrote.

    Args:
        path: The file to read.

    Returns:
        The attribution, equal in every tensor and word.

    Raises:
        InputError: If there is no such file, or it is not an attribution.

    Example:
        >>> a = whyformer.load("why.safetensors")
    """
    if not Path(path).is_file():
        raise InputError(
            f"there is no file {str(path)!r}", argument="path", remedy="Check the path"
        )
    try:
        with safe_open(str(path), framework="pt") as file:
            plain = json.loads((file.metadata() or {})["whyformer"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        if plain["format"] == FORMAT:
            found = _read(plain, tensors)
            check_attribution(found)
            return found
    except Exception as error:  # a damaged file can break anything that reads it
        raise InputError(
            f"{str(path)!r} is not an attribution saved by whyformer ({_why(error)})",
            argument="path",
            remedy="Pass a file that Attribution.save wrote",
        ) from error
    raise InputError(
        f"{str(path)!r} has format {plain['format']!r}, and this version reads {FORMAT!r}",
        argument="path",
        remedy="Load it with the version of whyformer that saved it",
    )


def _why(error: Exception) -> str:
    """What is wrong, in a few words."""
    return str(error) if type(error) is ValueError else type(error).__name__


def _read(plain: dict[str, Any], tensors: dict[str, Tensor]) -> Attribution:
    if plain["layers"] != count_layers((*plain, *tensors)):
        raise ValueError("the number of layers is another")

    def get(key: str) -> Any:
        return tensors.get(key, _as_tuples(plain.get(key)))

    return Attribution(
        method=plain["method"],
        main=plain["main"],
        labels=tuple(plain["labels"]),
        target=tensors["target"],
        output=tensors["output"],
        conservation=tensors.get("conservation"),
        probability=tensors.get("probability"),
        streams={
            name: Stream(name, **{part: get(f"streams/{name}/{part}") for part in _STREAM_PARTS})
            for name in plain["streams"]
        },
        sinks={k.split("/")[1]: v for k, v in tensors.items() if k.startswith("sinks/")},
        maps={
            (k.split("/")[1], k.split("/")[2]): v
            for k, v in tensors.items()
            if k.startswith("maps/")
        },
        layers=tuple(
            Layer(**_known(get, f"layers/{i}", _LAYER_PARTS)) for i in range(plain["layers"])
        ),
        nodes={
            stack: Nodes(**_known(get, f"nodes/{stack}", _NODE_PARTS))
            for stack in plain.get("nodes", ())
        },
        options=plain["options"],
        provenance=plain["provenance"],
        trust=Trust.from_dict(plain.get("trust")),
    )


def _known(get: Callable[[str], Any], folder: str, parts: tuple[str, ...]) -> dict[str, Any]:
    """The parts that were saved, by name."""
    found = {part: get(f"{folder}/{part}") for part in parts}
    return {part: value for part, value in found.items() if value is not None}


def _as_tuples(value: Any) -> Any:
    """JSON lists as tuples, as they were before saving."""
    return tuple(_as_tuples(v) for v in value) if isinstance(value, list) else value

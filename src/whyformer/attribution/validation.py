"""Check an attribution that comes from a file: the types and shapes that everything relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution.attribution import Attribution
from whyformer.attribution.layer import Layer
from whyformer.attribution.nodes import Nodes
from whyformer.attribution.stream import Stream
from whyformer.attribution.trust import Trust

Shape = Sequence[int | None]  # None for an axis of any length

LEVELS = ("ok", "note", "warning")
# The axes of what is kept of a layer and of nodes, after the samples.
_LAYER_AXES = {"attention": 3, "gradient": 3, "relevance": 3, "relevance_sum": 0, "entering": 2,
               "leaving": 2}  # fmt: skip
_NODE_AXES = {"states": 2, "heads": 3, "units": 2, "sinks": 1}


def check_attribution(attribution: Attribution) -> None:
    """Raise ValueError if a part has another type or shape than its class promises."""
    a, batch = attribution, len(attribution.target)
    _check_tensor("target", a.target, (batch,), is_integer)
    _check_tensor("output", a.output, (batch,))
    if a.conservation is not None:
        _check_tensor("conservation", a.conservation, (batch,))
    if a.probability is not None:
        _check_tensor("probability", a.probability, (batch,))
    _check(isinstance(a.method, str), "method is not a name")
    _check(a.main in a.streams, "main names no stream")
    _check(_are(a.labels, str) and len(a.labels) == batch, "labels are not one text per sample")
    _check(all(isinstance(name, str) for name in a.options), "options have no names")
    for name, sink in a.sinks.items():
        _check_tensor(f"sink {name}", sink, (batch,))
    for stream in a.streams.values():
        _check_stream(stream, batch)
    for (asking, answering), value in a.maps.items():
        _check({asking, answering} <= a.streams.keys(), "a map names no stream")
        rows, columns = a.streams[asking], a.streams[answering].scores.shape[1]
        _check_tensor("map", value, (batch, None if rows.spans else rows.scores.shape[1], columns))
        _check(value.shape[1] >= max(map(len, rows.spans or ((),))), "a map lacks rows")
    for layer in a.layers:
        _check_layer(layer, batch)
    for nodes in a.nodes.values():
        _check_nodes(nodes, batch)
    notes = a.provenance.get("notes") or ()
    _check(isinstance(notes, list | tuple), "notes are not a list")
    _check_trust(a.trust, batch)


def is_integer(tensor: Tensor) -> bool:
    """Whether a tensor holds whole numbers."""
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _check_stream(stream: Stream, batch: int) -> None:
    name = f"stream {stream.name}"
    _check(isinstance(stream.scores, Tensor) and stream.scores.ndim == 2, f"{name} has no scores")
    tokens = stream.scores.shape[1]
    per_token: Shape = (batch, tokens)
    _check_tensor(f"scores of {name}", stream.scores, per_token)
    _check_tensor(f"mask of {name}", stream.mask, per_token, _is_boolean)
    shapes: dict[str, tuple[Shape, Callable[[Tensor], bool]]] = {
        "image": ((batch, 3, None, None), _is_real),
        "pixels": ((batch, None, None), _is_real),
        "states": ((batch, tokens, None), _is_real),
        "deciding": (per_token, _is_boolean),
        "errors": (per_token, _is_real),
        "probabilities": (per_token, _is_real),
    }
    for part, (shape, kind) in shapes.items():
        if getattr(stream, part) is not None:
            _check_tensor(f"{part} of {name}", getattr(stream, part), shape, kind)
    if stream.grid is not None:
        _check(_are(stream.grid, int) and len(stream.grid) == 2, f"{name} has no grid of 2 sides")
        rows, columns = stream.grid
        _check(min(rows, columns) > 0 and rows * columns == tokens, f"{name} has another grid")
    for part, kinds in (("tokens", str), ("said", str), ("word_ids", (int, type(None)))):
        _check_rows(f"{part} of {name}", getattr(stream, part), batch, tokens, kinds)
    for part in ("spans", "roles"):
        _check_spans(f"{part} of {name}", getattr(stream, part), batch, tokens, part == "roles")


def _check_rows(name: str, rows: Any, batch: int, tokens: int, kind: Any) -> None:
    """Raise ValueError unless there is a row for each sample, with an entry for each token."""
    if rows is None:
        return
    _check(isinstance(rows, tuple) and len(rows) == batch, f"{name} are not one row per sample")
    for row in rows:
        _check(_are(row, kind) and len(row) >= tokens, f"{name} are not one per token")


def _check_spans(name: str, rows: Any, batch: int, tokens: int, named: bool) -> None:
    """Raise ValueError unless there are (start, end) places in order, or (start, end, name)."""
    if rows is None:
        return
    _check(isinstance(rows, tuple) and len(rows) == batch, f"{name} are not one row per sample")
    for row in rows:
        _check(isinstance(row, tuple), f"{name} are no places")
        for span in row:
            _check(isinstance(span, tuple) and len(span) == 2 + named, f"{name} are no places")
            start, end, *label = span
            _check(_are((start, end), int) and _are(label, str), f"{name} are no places")
            _check(0 <= start <= end <= tokens, f"{name} are outside of its tokens")


def _check_layer(layer: Layer, batch: int) -> None:
    for part, axes in _LAYER_AXES.items():
        if getattr(layer, part) is not None:
            _check_tensor(f"{part} of a layer", getattr(layer, part), (batch, *[None] * axes))
    names = isinstance(layer.asking, str) and isinstance(layer.answering, str)
    _check(names and isinstance(layer.together, bool), "a layer names no streams")


def _check_nodes(nodes: Nodes, batch: int) -> None:
    for part, axes in _NODE_AXES.items():
        if getattr(nodes, part) is not None:
            _check_tensor(f"{part} of nodes", getattr(nodes, part), (batch, *[None] * axes))
    _check(_are(nodes.answering, str), "nodes name no stacks")


def _check_trust(trust: Trust, batch: int) -> None:
    for reason in trust.reasons:
        _check(_are((reason.kind, reason.text), str), "a reason has no text")
        _check(reason.level in LEVELS, "a reason has an unknown level")
        _check(_are(reason.culprits, str), "a reason has unreadable culprits")
        _check(
            reason.share is None or isinstance(reason.share, int | float), "a share is no number"
        )
        samples = () if reason.samples is None else reason.samples
        _check(_are(samples, int) and all(0 <= one < batch for one in samples), "unknown samples")


def _check_tensor(
    name: str, value: Any, shape: Shape, kind: Callable[[Tensor], bool] | None = None
) -> None:
    """Raise ValueError unless this is a tensor of that shape and kind; real numbers by default."""
    _check(isinstance(value, Tensor) and (kind or _is_real)(value), f"{name} has the wrong type")
    same = len(value.shape) == len(shape) and all(
        expected in (None, found) for expected, found in zip(shape, value.shape, strict=True)
    )
    _check(same, f"{name} has the shape {tuple(value.shape)}")


def _is_real(tensor: Tensor) -> bool:
    return tensor.is_floating_point()


def _is_boolean(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bool


def _are(values: Any, kind: Any) -> bool:
    """Whether this is a tuple or list of such values; True and False are no whole numbers."""
    return isinstance(values, tuple | list) and all(
        isinstance(one, kind) and not isinstance(one, bool) for one in values
    )


def _check(holds: Any, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def count_layers(keys: Iterable[str]) -> int:
    """Return how many layers the keys of a file are about."""
    return len({key.split("/")[1] for key in keys if key.startswith("layers/")})

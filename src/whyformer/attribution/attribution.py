"""The result of an explanation: frozen, indexable per sample, saved without pickle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from whyformer.errors import InputError
from whyformer.registry import Registry

views: Registry[Any] = Registry("view", "whyformer.render.views")

FORMAT = "whyformer-attribution-1"


@dataclass(frozen=True)
class Stream:
    """One sequence of tokens and the relevance of each.

    Text lists every token, special ones included; images list the patches only, row by row.
    """

    name: str
    scores: Tensor  # (batch, tokens), 0 at padding
    mask: Tensor  # (batch, tokens), False at padding
    tokens: tuple[tuple[str, ...], ...] | None = None  # readable pieces, per sample
    word_ids: tuple[tuple[int | None, ...], ...] | None = None  # which word a token is part of
    grid: tuple[int, int] | None = None  # (rows, columns) of an image's patches
    image: Tensor | None = None  # (batch, 3, height, width) in 0..1: the pixels the model saw
    pixels: Tensor | None = None  # (batch, height, width), where a method reaches pixels
    states: Tensor | None = None  # (batch, tokens, hidden) where scores were read, if kept
    deciding: Tensor | None = None  # (batch, tokens), True where a head read the answer, if seen
    # The token that was explained at each position, where each of a generated text's was; "" else.
    said: tuple[tuple[str, ...], ...] | None = None

    @property
    def score_map(self) -> Tensor:
        """Scores laid out as the image's patches, (batch, rows, columns)."""
        if self.grid is None:
            raise InputError(f"stream '{self.name}' has no grid: it is not an image")
        return self.scores.unflatten(1, self.grid)

    def columns(self, index: int) -> Tensor:
        """Where one sample's tokens are; an image's padding stays, or its grid would not fit."""
        mask = self.mask[index]
        return (mask if self.grid is None else torch.ones_like(mask)).nonzero().flatten()

    def sample(self, index: int) -> Stream:
        """The stream of one sample, padding cut off, (1, its tokens)."""
        keep = self.columns(index)
        listed = keep.tolist()

        def cut(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[index : index + 1]

        return replace(
            self,
            scores=self.scores[index : index + 1, keep],
            mask=self.mask[index : index + 1, keep],
            tokens=self.tokens and (tuple(self.tokens[index][i] for i in listed),),
            word_ids=self.word_ids and (tuple(self.word_ids[index][i] for i in listed),),
            said=self.said and (tuple(self.said[index][i] for i in listed),),
            image=cut(self.image),
            pixels=cut(self.pixels),
            states=None if self.states is None else self.states[index : index + 1, keep],
            deciding=None if self.deciding is None else self.deciding[index : index + 1, keep],
        )


@dataclass(frozen=True)
class Layer:
    """What was kept of one layer; maps have axes (batch, head, query, key).

    `asking` and `answering` name whose tokens are the queries and the keys.
    """

    attention: Tensor | None = None
    gradient: Tensor | None = None
    relevance: Tensor | None = None  # of the attention map
    relevance_sum: Tensor | None = None  # (batch,) of what the block returned
    entering: Tensor | None = None  # (batch, tokens, hidden) relevance of what the block was given
    leaving: Tensor | None = None  # the same of what the last block returned
    asking: str = ""
    answering: str = ""
    together: bool = False  # with the layer before, as one moment: both saw the same states

    def read(self, *parts: str) -> tuple[Tensor, ...]:
        """Parts that are known to have been kept, in the order asked for."""
        return tuple(getattr(self, part) for part in parts)

    def sample(self, index: int) -> Layer:
        """The same of one sample, padding still in place."""
        one = slice(index, index + 1)
        parts = {part: getattr(self, part) for part in _LAYER_PARTS}
        cut: dict[str, Any] = {k: t[one] for k, t in parts.items() if isinstance(t, Tensor)}
        return replace(self, **cut)


@dataclass(frozen=True)
class Attribution:
    """Which tokens made the model say that: scores per stream, and how far to trust them."""

    method: str
    streams: Mapping[str, Stream]
    main: str  # the stream that `scores` shows
    target: Tensor  # (batch,) class or token index; -1 where the target is a callable
    output: Tensor  # (batch,) the value that was explained
    labels: tuple[str, ...]  # what was explained, in words, per sample
    conservation: Tensor | None = None  # (batch,) (tokens + sinks) / explained value
    sinks: Mapping[str, Tensor] = field(default_factory=dict)  # (batch,) by what took relevance
    layers: tuple[Layer, ...] = ()
    maps: Mapping[tuple[str, str], Tensor] = field(
        default_factory=dict
    )  # (batch, asking, answering)
    options: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # model, family, versions, notes

    def __post_init__(self) -> None:
        for name in ("streams", "sinks", "maps", "options", "provenance"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> Any:
        """How copy and other processes take it: read-only mappings travel as plain ones."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: dict(v) if isinstance(v, Mapping) else v for k, v in parts.items()}
        return _rebuilt, (plain,)

    # -- looking ------------------------------------------------------------------------------

    @property
    def scores(self) -> Tensor:
        """Relevance of the main stream's tokens, (batch, tokens), 0 at padding."""
        return self.streams[self.main].scores

    @property
    def tokens(self) -> tuple[tuple[str, ...], ...] | None:
        """The main stream's tokens, per sample."""
        return self.streams[self.main].tokens

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Attribution]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Attribution:
        """One sample as an attribution of its own, its padding cut off."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of an attribution of {len(self)}")
        i = index % len(self)
        one = slice(i, i + 1)
        return replace(
            self,
            streams={name: stream.sample(i) for name, stream in self.streams.items()},
            target=self.target[one],
            output=self.output[one],
            labels=self.labels[one],
            conservation=None if self.conservation is None else self.conservation[one],
            sinks={name: sink[one] for name, sink in self.sinks.items()},
            layers=tuple(layer.sample(i) for layer in self.layers),
            maps={
                (asking, answering): self._cut(value[one], i, asking, answering)
                for (asking, answering), value in self.maps.items()
            },
        )

    def _cut(self, values: Tensor, index: int, *names: str) -> Tensor:
        """A map of one sample without the rows and columns of padding."""
        for dim, name in enumerate(names, start=1):
            values = values.index_select(dim, self.streams[name].columns(index))
        return values

    def words(self, stream: str | None = None) -> list[tuple[str, float]]:
        """(word, score) of one sample: sub-words are joined and their scores added."""
        if len(self) != 1:
            raise InputError(
                f"words() reads one sample and this attribution has {len(self)}:"
                " index it first, as in a[0].words()"
            )
        if stream is not None and stream not in self.streams:
            raise InputError(
                f"there is no stream {stream!r}; this attribution has {', '.join(self.streams)}"
            )
        chosen = self.streams[stream or self.main].sample(0)
        if chosen.tokens is None:
            raise InputError(f"stream '{chosen.name}' has no words: it is not text")
        tokens, scores = chosen.tokens[0], chosen.scores[0].tolist()
        groups = chosen.word_ids[0] if chosen.word_ids else tuple(range(len(tokens)))
        merged: list[tuple[str, float]] = []
        last: int | None = None
        for token, score, group in zip(tokens, scores, groups, strict=True):
            if group is not None and group == last:
                word, total = merged[-1]
                merged[-1] = (word + token, total + score)
            else:
                merged.append((token, score))
            last = group
        return merged

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.scores.shape)
        said = ", ".join(
            f"{_brief(label)} = {value:.4g}"
            for label, value in zip(self.labels[:3], self.output.tolist(), strict=False)
        )
        more = ", ..." if len(self) > 3 else ""
        text = f"<Attribution {self.method}: {self.main} scores {shape}; {said}{more}"
        if self.conservation is not None:
            text += f"; conservation {self.conservation.mean():.4f}"
        return text + ">"

    # -- showing: the views register themselves, this class knows only their names -------------

    def to_html(self, path: str | Path | None = None) -> str:
        """A page of its own, as text; written to `path` where one is given."""
        return written(views["html"].render(self), path)

    def to_png(self, path: str | Path | None = None) -> bytes:
        """A picture as bytes; written to `path` where one is given."""
        return written(views["png"].render(self), path)

    def to_json(self, path: str | Path | None = None) -> str:
        """`to_dict()` as JSON text; written to `path` where one is given."""
        return written(views["json"].render(self), path)

    def to_terminal(self) -> str:
        """Coloured text for a terminal."""
        return written(views["terminal"].render(self), None)

    def _repr_html_(self) -> str:
        return str(views["notebook"].render(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, strings and numbers, ready for JSON."""
        return {
            "format": FORMAT,
            "method": self.method,
            "main": self.main,
            "target": self.target.tolist(),
            "labels": list(self.labels),
            "output": self.output.tolist(),
            "conservation": None if self.conservation is None else self.conservation.tolist(),
            "sinks": {name: sink.tolist() for name, sink in self.sinks.items()},
            "streams": {
                name: {
                    "scores": stream.scores.tolist(),
                    "mask": stream.mask.tolist(),
                    "tokens": stream.tokens and [list(t) for t in stream.tokens],
                    "word_ids": stream.word_ids and [list(w) for w in stream.word_ids],
                    "grid": stream.grid and list(stream.grid),
                    "deciding": None if stream.deciding is None else stream.deciding.tolist(),
                    "said": stream.said and [list(s) for s in stream.said],
                }
                for name, stream in self.streams.items()
            },
            "options": dict(self.options),
            "provenance": dict(self.provenance),
        }

    # -- keeping ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Writes one safetensors file: tensors as they are, everything else as JSON beside."""
        tensors: dict[str, Tensor] = {}
        plain: dict[str, Any] = {"format": FORMAT}

        def put(key: str, value: Any) -> None:
            if isinstance(value, Tensor):
                tensors[key] = value.detach().cpu().contiguous().clone()
            elif value is not None:
                plain[key] = value

        for item in ("method", "main", "labels", "target", "output", "conservation"):
            put(item, getattr(self, item))
        plain["options"], plain["provenance"] = dict(self.options), dict(self.provenance)
        plain["streams"] = list(self.streams)
        for name, stream in self.streams.items():
            for part in _STREAM_PARTS:
                put(f"streams/{name}/{part}", getattr(stream, part))
        for name, sink in self.sinks.items():
            put(f"sinks/{name}", sink)
        for (asking, answering), value in self.maps.items():
            put(f"maps/{asking}/{answering}", value)
        plain["layers"] = len(self.layers)
        for i, layer in enumerate(self.layers):
            for part in _LAYER_PARTS:
                put(f"layers/{i}/{part}", getattr(layer, part))
        if not Path(path).parent.is_dir():
            raise InputError(f"there is no folder {str(Path(path).parent)!r} to save {path} in")
        save_file(tensors, str(path), metadata={"whyformer": json.dumps(plain)})


_STREAM_PARTS = tuple(f.name for f in fields(Stream) if f.name != "name")
_LAYER_PARTS = tuple(f.name for f in fields(Layer))


def _brief(label: str) -> str:
    """The label in at most a few words, without anything that a terminal would obey."""
    plain = label if label.isprintable() else repr(label)[1:-1]
    return plain if len(plain) <= 40 else plain[:37] + "..."


def _rebuilt(parts: dict[str, Any]) -> Attribution:
    return Attribution(**parts)


def load(path: str | Path) -> Attribution:
    """The attribution that `Attribution.save` wrote, equal in every tensor and word."""
    if not Path(path).is_file():
        raise InputError(f"there is no file {str(path)!r} to load an attribution from")
    try:
        with safe_open(str(path), framework="pt") as file:
            plain = json.loads((file.metadata() or {})["whyformer"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        if plain["format"] == FORMAT:
            return _read(plain, tensors)
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise InputError(f"{str(path)!r} is not an attribution saved by whyformer") from error
    raise InputError(f"{str(path)!r} has format {plain['format']!r}; this version reads {FORMAT!r}")


def _read(plain: dict[str, Any], tensors: dict[str, Tensor]) -> Attribution:
    def get(key: str) -> Any:
        return tensors.get(key, _tupled(plain.get(key)))

    return Attribution(
        method=plain["method"],
        main=plain["main"],
        labels=tuple(plain["labels"]),
        target=tensors["target"],
        output=tensors["output"],
        conservation=tensors.get("conservation"),
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
            Layer(
                **{
                    part: value
                    for part in _LAYER_PARTS
                    if (value := get(f"layers/{i}/{part}")) is not None
                }
            )
            for i in range(plain["layers"])
        ),
        options=plain["options"],
        provenance=plain["provenance"],
    )


def _tupled(value: Any) -> Any:
    """JSON lists back as the tuples they were."""
    return tuple(_tupled(v) for v in value) if isinstance(value, list) else value


def written(content: Any, path: str | Path | None) -> Any:
    """The content itself, after writing it to `path` where one is given."""
    if path is not None:
        if isinstance(content, bytes):
            Path(path).write_bytes(content)
        else:
            Path(path).write_text(content, encoding="utf-8")
    return content

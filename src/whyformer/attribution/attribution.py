"""The result of an explanation: frozen, and indexable per sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor

from whyformer.attribution.characters import hide_controls
from whyformer.attribution.layer import Layer
from whyformer.attribution.nodes import Nodes
from whyformer.attribution.stream import Stream
from whyformer.attribution.trust import Trust
from whyformer.attribution.view_registry import View
from whyformer.attribution.viewable import Viewable
from whyformer.errors import InputError


@dataclass(frozen=True)
class Attribution(Viewable):
    """The relevance of every token to what the model predicted.

    Attributes:
        method: The name of the method.
        streams: The scored token streams by name.
        main: The stream that `scores` and `tokens` refer to.
        target: (batch,) class or token index; -1 if the target is a callable.
        output: (batch,) the value that was explained.
        labels: What was explained, in words, per sample.
        conservation: (batch,) sum of scores and sinks over the explained value; None if the
            method does not conserve.
        probability: (batch,) probability that the model gives to the target; NaN for a sample
            whose target has none (a contrast), None if no sample has one (a regression).
        sinks: (batch,) relevance that no token received, by what received it.
        layers: What `keep=` kept of each layer.
        maps: (batch, asking, answering) relevance between two streams, by their names. Rows
            about generated text are its tokens, or the `spans` of its stream.
        nodes: Relevance of layers, heads and MLP units by stack, if `keep="nodes"`.
        options: The options of the method.
        provenance: Model, family, package versions and notes.
        trust: How far to trust the scores: a verdict and its reasons.
    """

    method: str
    streams: Mapping[str, Stream]
    main: str
    target: Tensor
    output: Tensor
    labels: tuple[str, ...]
    conservation: Tensor | None = None
    probability: Tensor | None = None
    sinks: Mapping[str, Tensor] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ()
    maps: Mapping[tuple[str, str], Tensor] = field(default_factory=dict)
    nodes: Mapping[str, Nodes] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    trust: Trust = field(default_factory=Trust)

    def __post_init__(self) -> None:
        for name in ("streams", "sinks", "maps", "nodes", "options", "provenance"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> Any:
        # A read-only mapping cannot be pickled: copies and other processes get plain ones.
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: dict(v) if isinstance(v, Mapping) else v for k, v in parts.items()}
        return _rebuild, (plain,)

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
        """Return one sample as an attribution without padding."""
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
            probability=None if self.probability is None else self.probability[one],
            sinks={name: sink[one] for name, sink in self.sinks.items()},
            layers=tuple(layer.sample(i) for layer in self.layers),
            maps={
                (asking, answering): self._cut(value[one], i, asking, answering)
                for (asking, answering), value in self.maps.items()
            },
            nodes={stack: nodes.sample(i) for stack, nodes in self.nodes.items()},
            trust=self.trust.take((i,)),
        )

    def _cut(self, values: Tensor, index: int, asking: str, answering: str) -> Tensor:
        """The map of one sample without the rows and columns of padding."""
        rows, columns = self.streams[asking].rows(index), self.streams[answering].columns(index)
        return values.index_select(1, rows).index_select(2, columns)

    def words(self, stream: str | None = None) -> list[tuple[str, float]]:
        """Merge sub-words into words and add up their scores.

        Args:
            stream: The name of a text stream; the main stream if None.

        Returns:
            (word, score) of every word, in order.

        Raises:
            InputError: If the attribution has several samples, or the stream has no words.

        Example:
            >>> whyformer.explain("a gripping film")[0].words()
        """
        if len(self) != 1:
            raise InputError(
                f"words() needs one sample, and this attribution has {len(self)}",
                remedy="Index it first, as in a[0].words()",
            )
        if stream is not None and stream not in self.streams:
            raise InputError(
                f"there is no stream {stream!r}",
                argument="stream",
                remedy=f"Pass one of {', '.join(self.streams)}",
            )
        found = self.streams[stream or self.main].sample(0)
        if found.tokens is None:
            raise InputError(f"stream '{found.name}' has no words: it is not text")
        tokens, scores = found.tokens[0], found.scores[0].tolist()
        groups = found.word_ids[0] if found.word_ids else tuple(range(len(tokens)))
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
        explained = ", ".join(
            f"{_brief(label)} = {value:.4g}"
            for label, value in zip(self.labels[:3], self.output.tolist(), strict=False)
        )
        more = ", ..." if len(self) > 3 else ""
        text = f"<Attribution {self.method}: {self.main} scores {shape}; {explained}{more}"
        if self.conservation is not None:
            text += f"; conservation {self.conservation.mean():.4f}"
        if self.trust.warnings:
            text += f"; {self.trust.verdict}"
        return text + ">"

    def _render(self, view: View, options: dict[str, Any]) -> str | bytes:
        return view.render(self, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, strings and numbers, ready for JSON."""
        from whyformer.attribution.storage import plain_data

        return plain_data(self)

    def top(
        self, k: int = 5, stream: str | None = None, *, specials: bool = False
    ) -> list[tuple[str, float]]:
        """Return the words or patches with the largest scores.

        Args:
            k: How many.
            stream: The name of a stream; the main stream if None.
            specials: Whether tokens that the tokenizer added, such as [CLS], count too.

        Returns:
            (word, score) by falling |score|. Patches are called "row 1, column 2".

        Raises:
            InputError: If the attribution has several samples, or `k` or the stream is wrong.

        Example:
            >>> whyformer.explain("a gripping film").top(1)[0][0]
            'gripping'
        """
        from whyformer.attribution.word_table import strongest_rows

        return strongest_rows(self, k, stream, specials)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with one row per word or patch of every sample.

        Its columns are sample, stream, position, text, special, score, label, output,
        probability and method.

        Raises:
            InputError: If pandas is not installed.

        Example:
            >>> frame = whyformer.explain(["a gripping film", "dull"]).to_pandas()
            >>> frame.groupby("sample")["score"].sum()  # doctest: +SKIP
        """
        from whyformer.attribution.word_table import to_pandas

        return to_pandas(self)

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Return the table of `to_pandas` as CSV text, or write it to `path` and return None."""
        from whyformer.attribution.viewable import write_file
        from whyformer.attribution.word_table import to_csv

        text = to_csv(self)
        if path is None:
            return text
        write_file(text, path)
        return None

    def to_shap(self, stream: str | None = None) -> Any:
        """Return a `shap.Explanation`, for shap's plots.

        Args:
            stream: The name of a stream; the main stream if None.

        Returns:
            Words or pixels as `data`, their scores as `values`. `base_values` holds the sinks, so
            that base_values + values.sum() is the output if the method conserves relevance.

        Raises:
            InputError: If shap is not installed, or there is no such stream.

        Example:
            >>> import shap  # doctest: +SKIP
            >>> shap.plots.text(whyformer.explain("a gripping film").to_shap())  # doctest: +SKIP
        """
        from whyformer.attribution.shap_explanation import to_shap

        if stream is not None and stream not in self.streams:
            raise InputError(
                f"there is no stream {stream!r}",
                argument="stream",
                remedy=f"Pass one of {', '.join(self.streams)}",
            )
        return to_shap(self, stream or self.main)

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file, which `whyformer.load` reads.

        Args:
            path: The file to write.

        Raises:
            InputError: If the folder of `path` does not exist.

        Example:
            >>> whyformer.explain("a gripping film").save("why.safetensors")
        """
        from whyformer.attribution.storage import save

        save(self, path)


def _brief(label: str) -> str:
    """The label in at most 40 characters."""
    plain = hide_controls(label)
    return plain if len(plain) <= 40 else plain[:37] + "..."


def _rebuild(parts: dict[str, Any]) -> Attribution:
    return Attribution(**parts)

"""Notebooks: the page of html.py as a cell's output, cut where a batch would flood it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from markupsafe import escape
from torch import Tensor

from whyformer.attribution import Attribution, Stream, views

MOST = 8  # samples that are shown at once


class Notebook:
    """A piece of a page for the first samples, and a note about the rest."""

    name = "notebook"
    title = "the output of a notebook's cell"

    def render(self, attribution: Attribution) -> str:
        """HTML without a page around it."""
        shown = str(views["html"].fragment(first_samples(attribution, MOST)))
        return shown + _note(len(attribution))

    def render_comparison(self, attributions: Sequence[Attribution]) -> str:
        """The attributions one below the other; a page of its own compares them better."""
        return "".join(self.render(attribution) for attribution in attributions)


def _note(count: int) -> str:
    if count <= MOST:
        return ""
    text = (
        f"Shown are the first {MOST} of {count} samples. Index the attribution to see another, as"
        f" in a[{MOST}]; a.to_html('why.html') writes all of them."
    )
    return f'<p class="whyformer cell">{escape(text)}</p>'


def first_samples(attribution: Attribution, count: int) -> Attribution:
    """The first samples of the batch as an attribution of their own."""
    if len(attribution) <= count:
        return attribution
    few = slice(count)
    return replace(
        attribution,
        streams={name: _first(stream, few) for name, stream in attribution.streams.items()},
        target=attribution.target[few],
        output=attribution.output[few],
        labels=attribution.labels[few],
        conservation=None if attribution.conservation is None else attribution.conservation[few],
        sinks={name: sink[few] for name, sink in attribution.sinks.items()},
        maps={key: value[few] for key, value in attribution.maps.items()},
        layers=(),  # no cell has room for them
    )


def _first(stream: Stream, few: slice) -> Stream:
    """The stream of the first samples: whatever it has one of per sample."""
    batched: dict[str, Any] = {
        field.name: value[few]
        for field in fields(stream)
        if field.name not in ("name", "grid")
        and isinstance(value := getattr(stream, field.name), Tensor | tuple)
    }
    return replace(stream, **batched)


views.register("notebook", Notebook())

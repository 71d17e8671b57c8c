"""The view `notebook`: the first samples of a batch, as the output of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from markupsafe import escape
from torch import Tensor

from whyformer.attribution import Attribution, Stream, view
from whyformer.render.comparison import OWN, compare_samples
from whyformer.render.html.page import build_sample_fragment
from whyformer.render.view_model import read_samples

MOST = 8  # samples that are shown at once


@view("notebook", title="the output of a notebook cell", comparison_options=("scale",))
class Notebook:
    """The first samples as a fragment of HTML, and a note about the others."""

    def render(self, attribution: Attribution) -> str:
        """Return HTML for a cell."""
        shown = read_samples(first_samples(attribution, MOST))
        return build_sample_fragment(shown, inline=True).to_html() + _note(len(attribution))

    def render_comparison(self, attributions: Sequence[Attribution], *, scale: str = OWN) -> str:
        """Return the attributions below each other, and the note about their colours."""
        samples = compare_samples([first_samples(a, MOST) for a in attributions], scale)
        columns = zip(*(sample.contents for sample in samples), strict=True)
        shown = "".join(
            build_sample_fragment(contents, inline=True).to_html() for contents in columns
        )
        note = f'<p class="whyformer cell">{escape(samples[0].scales)}</p>'
        return shown + note + _note(len(attributions[0]))


def _note(count: int) -> str:
    if count <= MOST:
        return ""
    text = (
        f"The first {MOST} of {count} samples. Use a[{MOST}] to see another one, or"
        " a.to_html('why.html') to write all of them."
    )
    return f'<p class="whyformer cell">{escape(text)}</p>'


def first_samples(attribution: Attribution, count: int) -> Attribution:
    """Return the first `count` samples as an attribution, without layers."""
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
        probability=None if attribution.probability is None else attribution.probability[few],
        sinks={name: sink[few] for name, sink in attribution.sinks.items()},
        maps={key: value[few] for key, value in attribution.maps.items()},
        layers=(),
        trust=attribution.trust.take(range(count)),
    )


def _first(stream: Stream, few: slice) -> Stream:
    """The stream of these samples: every field that has one entry per sample is cut."""
    batched: dict[str, Any] = {
        field.name: value[few]
        for field in fields(stream)
        if field.name not in ("name", "grid")
        and isinstance(value := getattr(stream, field.name), Tensor | tuple)
    }
    return replace(stream, **batched)

"""An attribution as a `shap.Explanation`, for shap's plots."""

from __future__ import annotations

from typing import Any

import numpy

from whyformer.attribution.attribution import Attribution
from whyformer.attribution.optional_package import import_package
from whyformer.attribution.pixel_scores import pixel_scores
from whyformer.attribution.word_table import stream_rows


def to_shap(attribution: Attribution, stream: str) -> Any:
    """Return a `shap.Explanation` of one stream.

    `base_values` holds what no token of this stream received: the sinks and the scores of other
    streams. So base_values plus the sum of values is the output, as far as scores are conserved.
    Words end with a space, as those of shap's maskers do.
    """
    shap = import_package("shap", "to_shap()")
    found = attribution.streams[stream]
    base = sum((sink for sink in attribution.sinks.values()), attribution.output * 0)
    if attribution.conservation is not None:
        others = [one for name, one in attribution.streams.items() if name != stream]
        base = sum((one.scores.sum(1) for one in others), base)
    same = len(set(attribution.labels)) == 1
    names: dict[str, Any] = {"output_names": attribution.labels[0]} if same else {}
    if found.grid is not None:
        if found.image is None:
            values = found.score_map.detach().double().numpy()
            return shap.Explanation(values, base.double().numpy(), **names)
        height, width = found.image.shape[-2:]
        channels = found.image.shape[1]
        scores = pixel_scores(found, height, width).detach().double()
        return shap.Explanation(
            (scores / channels)[..., None].expand(-1, -1, -1, channels).numpy(),
            base.double().numpy(),
            found.image.permute(0, 2, 3, 1).double().numpy(),
            **names,
        )
    rows = [stream_rows(one, one.streams[stream]) for one in attribution]
    return shap.Explanation(
        _ragged([numpy.array([score for *_, score in row]) for row in rows]),
        base.double().numpy(),
        _ragged([numpy.array([f"{text} " for text, *_ in row]) for row in rows]),
        **names,
    )


def _ragged(arrays: list[Any]) -> Any:
    """The arrays in one array of objects; one array of numbers if there is only one sample."""
    if len(arrays) == 1:
        return arrays[0][None]
    found = numpy.empty(len(arrays), dtype=object)
    for i, array in enumerate(arrays):
        found[i] = array
    return found

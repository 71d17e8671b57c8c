"""whyformer's methods as an `explain_func` of Quantus."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch import nn

from whyformer.attribution.pixel_scores import pixel_scores
from whyformer.errors import InputError
from whyformer.explain import explain
from whyformer.options import DEFAULT_METHOD

# What Quantus passes to every explain_func, and whyformer has no use for.
UNUSED = ("device", "softmax", "channel_first")


def explain_func(
    model: nn.Module,
    inputs: Any,
    targets: Any,
    *,
    method: str = DEFAULT_METHOD,
    **settings: Any,
) -> numpy.ndarray:
    """Return attributions as Quantus's metrics take them.

    Args:
        model: The model, an `nn.Module`.
        inputs: (batch, channels, height, width) pixel values or (batch, tokens) token ids, as an
            array or a tensor.
        targets: (batch,) the classes to explain, or None for the predicted ones.
        method: The name of a method; see `whyformer.methods()`.
        **settings: Further arguments of `whyformer.explain`, also options of the method.

    Returns:
        (batch, 1, height, width), each patch's score shared out evenly over its pixels, or
        (batch, tokens), in float32.

    Raises:
        InputError: The inputs have another number of axes.

    Example:
        >>> import quantus  # doctest: +SKIP
        >>> metric = quantus.PixelFlipping(features_in_step=28)  # doctest: +SKIP
        >>> metric(
        ...     model=model, x_batch=x, y_batch=y, explain_func=whyformer.quantus.explain_func,
        ...     explain_func_kwargs={"method": "gae"},
        ... )  # doctest: +SKIP
    """
    given = torch.as_tensor(numpy.asarray(inputs)) if not torch.is_tensor(inputs) else inputs
    weights = next((p for p in model.parameters() if p.is_floating_point()), None)
    if weights is not None:
        given = given.to(weights.device, weights.dtype if given.is_floating_point() else None)
    target = None if targets is None else [int(one) for one in numpy.asarray(targets).reshape(-1)]
    own = {name: value for name, value in settings.items() if name not in UNUSED}
    found = explain(given, model, method=method, target=target, **own)
    stream = found.streams[found.main]
    if given.ndim == 4:
        scores = pixel_scores(stream, *given.shape[-2:])[:, None]
    elif given.ndim == 2:
        scores = stream.scores
    else:
        raise InputError(
            f"the inputs have shape {tuple(given.shape)}",
            argument="inputs",
            remedy="Pass (batch, channels, height, width) pixels or (batch, tokens) ids",
        )
    array: numpy.ndarray = scores.detach().cpu().float().numpy()
    return array

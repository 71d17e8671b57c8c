"""Attention layers with the gradient that the option `gradient` names: "plain" or "balanced"."""

from __future__ import annotations

from dataclasses import replace

from whyformer.attribution import Layer
from whyformer.engine.passes.attentions import Attentions, attentions
from whyformer.engine.passes.balanced import balanced
from whyformer.engine.passes.relevances import Relevances, relevances
from whyformer.engine.run import Run
from whyformer.engine.streamed_layers import AnyLayer, Mix, StreamedLayer
from whyformer.methods.method import check_choice

KINDS = ("plain", "balanced")


def attentions_with_gradient(
    run: Run, gradient: str, first: int = 0, by_pair: bool = False, mix: Mix | None = None
) -> Attentions:
    """Return the attention of the layers from `first` on, with its gradient.

    `mix` is what the method reads of a layer, if it reads nothing else.
    """
    if check_choice("gradient", gradient, KINDS) == "balanced":
        return balanced(run, states=False, first=first, by_pair=by_pair, mix=mix)
    return attentions(run, gradient=True, first=first, by_pair=by_pair, mix=mix)


def relevances_with_gradient(run: Run, rules: str, gradient: str, first: int = 0) -> Relevances:
    """Return attention, relevance and gradient of the layers from `first` on.

    The balanced gradient needs a second forward and backward pass: its rules are not those of the
    relevance.
    """
    if check_choice("gradient", gradient, KINDS) == "plain":
        return relevances(run, rules, first=first)
    seen = relevances(run, rules, first=first, gradient=False)
    other = balanced(run.aim_at(seen.forward.goal), states=False, first=first)
    return replace(
        seen,
        every=tuple(map(_with_gradient_of, seen.every, other.every)),
        layers=tuple(map(_with_gradient_of, seen.layers, other.layers)),
    )


def _with_gradient_of(layer: AnyLayer, other: AnyLayer) -> AnyLayer:
    """The layer with the gradient of the same layer in another pass."""
    if isinstance(layer, StreamedLayer) and isinstance(other, StreamedLayer):
        return replace(layer, output_gradient=other.output_gradient)
    assert isinstance(layer, Layer)
    assert isinstance(other, Layer)
    return replace(layer, gradient=other.gradient)

"""Scores computed without whyformer: plain autograd, and the model's own attention maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tests.matrix.facts import AttentionWatch, hooks_on, is_packed, watch

PREFIX = 6  # at most so many class, distillation and register tokens
_FEATURES = {3: ((2,),), 4: ((3,), (1,), (2, 3))}  # axes of features, by rank
Pick = Callable[[Any], Tensor]  # from an output to the explained value, (batch,)


def gradients_x_input(model: nn.Module, inputs: Mapping[str, Any], pick: Pick) -> list[Tensor]:
    """x * df/dx at what entered each module around the first attention, (batch, tokens) each.

    (batch, rows, columns) of states with rows and columns, with features on either side of them,
    and (batch, tokens) of states with features on all axes after the tokens.
    """
    attended, output = watch(model, inputs)
    if not attended.first:
        return []
    value = pick(output).sum()
    gradients = torch.autograd.grad(value, attended.first, allow_unused=True)
    pairs = zip(attended.first, gradients, strict=True)
    products = [(x * g).detach() for x, g in pairs if g is not None]
    if is_packed(inputs):
        products = [one.unsqueeze(0) if one.ndim == 2 else one for one in products]
    return [one.sum(axes) for one in products for axes in _FEATURES.get(one.ndim, ())]


def in_raster_order(
    model: nn.Module, inputs: Mapping[str, Any], pick: Pick, grid: tuple[int, int]
) -> list[Tensor]:
    """x * df/dx of `gradients_x_input`, sorted by where the pixels of each token are.

    For models that put patches into another order (Hiera: mask units; TimeSformer: time last). The
    place of a token is the centre of its gradient at the pixels; tokens without one are left out.
    """
    name = next(k for k, v in inputs.items() if isinstance(v, Tensor) and v.ndim > 3)
    pixels = inputs[name].detach().clone().requires_grad_()
    attended, output = watch(model, {**inputs, name: pixels})
    places = [x for x in attended.first if x.ndim == 3 and len(x) == len(pixels)]
    gradients = torch.autograd.grad(
        pick(output).sum(), places, allow_unused=True, retain_graph=True
    )
    found = []
    for x, g in zip(places, gradients, strict=True):
        centres = {n: c for n in range(x.shape[1]) if (c := _centre(x[0, n], pixels))}
        if g is not None and len(centres) == grid[0] * grid[1]:
            down = sorted(centres, key=lambda n: centres[n][:2])
            rows = [down[i : i + grid[1]] for i in range(0, len(down), grid[1])]
            order = [n for row in rows for n in sorted(row, key=lambda n: centres[n][2])]
            found.append((x * g).sum(-1).detach()[:, order])
    return found


def _centre(token: Tensor, pixels: Tensor) -> tuple[float, float, float] | None:
    """(frame, row, column) of the middle of what a token sees of the first sample."""
    weights = torch.arange(token.numel(), dtype=token.dtype).cos()
    (slope,) = torch.autograd.grad((token * weights).sum(), pixels, retain_graph=True)
    seen = slope[0].abs().sum(-3)
    seen = seen if seen.ndim == 3 else seen.unsqueeze(0)
    if not bool(seen.any()):
        return None
    frame, row, column = (
        (seen.sum([a for a in range(3) if a != axis]) * torch.arange(seen.shape[axis])).sum()
        for axis in range(3)
    )
    total = seen.sum()
    return float(frame / total), round(float(row / total), 3), float(column / total)


def attention_maps(
    model: Any, inputs: Mapping[str, Any], pick: Pick
) -> list[tuple[Tensor, Tensor]] | None:
    """Each layer's map and its gradient, (batch, head, token, token); None if not all are given.

    A module may use several maps and return one of them: their heads are those of one layer.
    """
    before = getattr(model.config, "_attn_implementation", None)
    calls: list[int] = []  # the running calls of modules, outermost first
    started = 0
    together: dict[int, list[Tensor]] = {}  # the maps of each call

    def start(name: str, args: Any, kwargs: Any) -> None:
        nonlocal started
        started += 1
        calls.append(started)

    def stop(name: str, output: Any) -> None:
        calls.pop()

    def seen(attention: Tensor) -> None:
        together.setdefault(calls[-1], []).append(attention)

    try:
        model.set_attn_implementation("eager")
        with torch.enable_grad():
            with hooks_on(model, start, stop), AttentionWatch(seen):
                output = model(**inputs, output_attentions=True)
            maps = output.get("attentions") if isinstance(output, Mapping) else None
            if not maps or any(m is None or m.ndim != 4 or m.shape != maps[0].shape for m in maps):
                return None
            if maps[0].shape[2] != maps[0].shape[3] or not all(m.requires_grad for m in maps):
                return None
            if any(bool((m < 0).any()) for m in maps):
                return None  # SqueezeBERT returns the scores before the softmax
            layers = [_maps_beside(one, [*together.values()]) for one in maps]
            every = [one for layer in layers for one in layer]
            gradients = torch.autograd.grad(pick(output).sum(), every, allow_unused=True)
    except (ValueError, TypeError, RuntimeError, AttributeError):
        return None
    finally:
        if before is not None:
            model.set_attn_implementation(before)
    found = dict(zip(map(id, every), gradients, strict=True))
    if any(found[id(one)] is None for one in maps):
        return None  # what it returns is not what it multiplies with (WavLM: a mean of heads)
    slopes = [[found[id(m)] if found[id(m)] is not None else 0 * m for m in own] for own in layers]
    pairs = zip(layers, slopes, strict=True)
    return [(torch.cat(m, 1).detach(), torch.cat(g, 1).detach()) for m, g in pairs]


def _maps_beside(attention: Tensor, calls: list[list[Tensor]]) -> list[Tensor]:
    """A map that a model returned, and those that the same call of a module used beside it."""
    for same in (_is_same, _is_equal):
        for maps in calls:
            own = next((i for i, one in enumerate(maps) if same(one, attention)), None)
            if own is not None:
                beside = [*maps[:own], *maps[own + 1 :]]
                return [attention, *(one for one in beside if one.shape == attention.shape)]
    return [attention]


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr()


def _is_equal(one: Tensor, other: Tensor) -> bool:
    """Whether a model made another tensor of a map, as by another precision."""
    return one.shape == other.shape and torch.equal(one.to(other.dtype), other)


def raw_attention(layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The last map, heads averaged, (batch, token, token)."""
    return layers[-1][0].mean(1)


def rollout(layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The product of all maps with their skip connections."""
    one = torch.eye(layers[0][0].shape[-1], dtype=layers[0][0].dtype)
    result = one.expand(len(layers[0][0]), -1, -1)
    for attention, _ in layers:
        mixing = attention.mean(1) + one
        result = mixing / mixing.sum(-1, keepdim=True) @ result
    return result


def gae(layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Eqs. 5 and 6 of the paper, from the first layer up."""
    one = torch.eye(layers[0][0].shape[-1], dtype=layers[0][0].dtype)
    result = one.expand(len(layers[0][0]), -1, -1)
    for attention, gradient in layers:
        result = result + (attention * gradient).clamp(min=0).mean(1) @ result
    return result


def _means(rows: Tensor) -> list[Tensor]:
    """Means over the tokens that heads read together: all, prefixes, the rest, first and rest."""
    cuts = range(1, min(PREFIX, len(rows) - 1) + 1)
    sets = [rows, *(rows[:k] for k in cuts), *(rows[k:] for k in range(1, len(rows)))]
    sets += [torch.cat([rows[:1], rows[k:]]) for k in cuts]
    return [one.mean(0) for one in sets]


WALKS = {"raw_attention": raw_attention, "rollout": rollout, "gae": gae}


def is_a_row(scores: Tensor, relevance: Tensor, mask: Tensor, tolerance: float) -> bool:
    """Whether one sample's scores are a row of a (token, token) map, or a mean of rows.

    An image's scores leave the tokens before its patches out.
    """
    count = len(scores)
    real = mask if len(mask) == len(relevance) else torch.ones(len(relevance), dtype=torch.bool)
    relevance = relevance[real]
    if count > len(real):
        return False
    for row in [*relevance, *_means(relevance)]:
        for kept in (row[-count:], row[:count]):
            kept = kept * mask if len(mask) == count else kept
            if (kept - scores).abs().max() <= tolerance * kept.abs().max().clamp(min=1e-30):
                return True
    return False

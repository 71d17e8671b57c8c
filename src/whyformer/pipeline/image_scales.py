"""The scales of an image in a language model: its soft tokens, and the patches below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from whyformer.attribution import Stream
from whyformer.engine.passes.tower import TowerRelevance
from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.inputs.soft_tokens import SoftStream

# What streams of patches are called beside those of tokens, and the sink that counts them once.
PATCHES = "patches"
TWICE = "shown twice"


def check_scale(run: Run) -> None:
    """Raise OptionError if the images' patches are wanted and not known."""
    soft = run.batch.soft
    if run.image_scale == "tokens" or (soft is not None and soft.patches is not None):
        return
    why = "the inputs have no image"
    if run.family is None or not any(one.tower for one in run.family.soft):
        why = f"no family declares the image encoder of {run.name} below its language model"
    raise OptionError(
        f"image_scale={run.image_scale!r} reads the patches of images, and {why}",
        argument="image_scale",
        remedy="Leave out image_scale=",
    )


def with_patches(
    streams: Mapping[str, Stream], sinks: Mapping[str, Tensor], run: Run, result: MethodResult
) -> tuple[dict[str, Stream], dict[str, Tensor]]:
    """Return streams and sinks at the scale that the run asks for.

    At "both", the streams of tokens stay, and a sink takes their sum away again: scores and sinks
    still add up to the explained value.
    """
    if run.image_scale == "tokens":
        return dict(streams), dict(sinks)
    soft, found = run.batch.soft, result.patches
    assert soft is not None
    assert soft.patches is not None
    if found is None:
        raise OptionError(
            f"image_scale={run.image_scale!r}: with these options the method does not read the"
            " states that enter the first block",
            argument="image_scale",
            remedy="Leave out at=, or image_scale=",
        )
    shown = {one.name: _stream(one, found) for one in soft.patches.streams}
    total = _add(sinks, {name: amount.cpu() for name, amount in found.sinks.items()})
    if run.image_scale == "patches":
        return {**streams, **shown}, total
    together = sum((streams[name].scores.sum(1) for name in shown), torch.zeros(()))
    beside = {f"{name} {PATCHES}": one for name, one in shown.items()}
    named = {name: replace(one, name=name) for name, one in beside.items()}
    return {**streams, **named}, {**total, TWICE: -together}


def with_tower_leaks(result: MethodResult) -> MethodResult:
    """Return the result with what the image encoder lost beside what the language model lost."""
    if result.patches is None:
        return result
    return replace(result, leaks=_add(result.leaks, result.patches.leaks))


def _add(some: Mapping[str, Tensor], more: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The accounts of both together."""
    added = {name: some[name] + one if name in some else one for name, one in more.items()}
    return {**some, **added}


def _stream(patches: SoftStream, found: TowerRelevance) -> Stream:
    """The stream of one image's patches."""
    return Stream(
        name=patches.name,
        scores=found.scores[patches.name].cpu(),
        mask=(patches.places >= 0).cpu(),
        grid=patches.grid,
        image=patches.image,
    )

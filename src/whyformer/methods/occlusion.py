"""Occlusion: what the explained value loses without each part (Zeiler & Fergus, ECCV 2014)."""

from __future__ import annotations

import torch

from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.methods.method import method
from whyformer.methods.perturbation.game import make_game
from whyformer.methods.perturbation.units import Unit


@method(
    "occlusion",
    title="What the explained value loses without each token, word, sentence or patch",
    paper="Zeiler & Fergus, ECCV 2014; Li et al., 2016",
    needs=("removal",),
    signed=True,
    slow=True,
)
def occlusion(
    run: Run, *, unit: Unit | None = None, size: int = 1, fill: str | None = None
) -> MethodResult:
    """value of the whole input - value without the unit, shared evenly by the unit's tokens.

    One forward per unit. `unit` is a token, word or sentence of a text, or a patch of an image.
    With `size` an image loses windows of size x size patches, at a stride of one patch; a patch
    gets the mean of its windows. Special tokens are never removed: their score is 0. `fill`
    says what replaces removed tokens or pixels, as in the metrics.
    """
    game = make_game(run, fill, unit, size)
    without = game.values([~torch.eye(len(own), dtype=torch.bool) for own in game.features])
    return game.result([game.whole[i] - lost for i, lost in enumerate(without)])

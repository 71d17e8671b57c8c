"""A sparse linear model of the value over random ablations (Cohen-Wang et al., NeurIPS 2024)."""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.methods.method import method
from whyformer.methods.perturbation.game import make_game
from whyformer.methods.perturbation.units import Unit

FEWEST = 8  # forwards
SWEEPS, CONVERGED = 10_000, 1e-12


@method(
    "context_cite",
    title="A sparse linear fit of the explained value over random ablations of sentences",
    paper="Cohen-Wang et al., NeurIPS 2024",
    needs=("removal",),
    signed=True,
    slow=True,
)
def context_cite(
    run: Run,
    *,
    samples: int = 128,
    alpha: float = 0.01,
    unit: Unit | None = None,
    fill: str | None = None,
    seed: int = 0,
) -> MethodResult:
    """The weight of each unit in a LASSO fit, shared evenly by the unit's tokens.

    Each of `samples` forwards keeps each unit with probability 1/2. Units are sentences, words
    if a text has only one sentence, and patches of an image. `alpha` is the penalty of the
    weights for units and values scaled to variance 1: the larger, the more units score 0.
    """
    if samples < FEWEST or alpha < 0:
        name, value = ("samples", samples) if samples < FEWEST else ("alpha", alpha)
        raise OptionError(
            f"{name}={value} is too small",
            argument=name,
            remedy=f"Pass at least {FEWEST if name == 'samples' else 0}",
        )
    game = make_game(run, fill, unit or "longest")
    kept = []
    for features in game.features:
        generator = torch.Generator().manual_seed(seed)
        kept.append(torch.rand(samples, len(features), generator=generator) < 0.5)
    values = game.values(kept)
    return game.result([_lasso(x.double(), y, alpha) for x, y in zip(kept, values, strict=True)])


def _lasso(kept: Tensor, values: Tensor, alpha: float) -> Tensor:
    """The weights w that minimise |y - Xw|^2 / 2n + alpha |w|, by coordinate descent.

    X and y are centred and scaled to variance 1; the weights are returned in the values' scale.
    """
    x, y = kept - kept.mean(0), values - values.mean()
    x_scale, y_scale = x.square().mean(0).sqrt(), y.square().mean().sqrt()
    # Values that differ by rounding alone have no scale.
    if y_scale <= 1e-12 * values.abs().max():
        return torch.zeros(x.shape[1], dtype=torch.float64)
    varied = x_scale > 0
    x, y = x[:, varied] / x_scale[varied], y / y_scale
    gram, towards = (x.T @ x / len(x)), (x.T @ y / len(x))
    weights = torch.zeros_like(towards)
    for _ in range(SWEEPS):
        before = weights.clone()
        for i in range(len(weights)):
            pull = towards[i] - gram[i] @ weights + weights[i]  # the diagonal of gram is 1
            weights[i] = pull.sign() * (pull.abs() - alpha).clamp(min=0)
        if (weights - before).abs().max() < CONVERGED:
            break
    scores = torch.zeros(len(varied), dtype=torch.float64)
    scores[varied] = weights * y_scale / x_scale[varied]
    return scores

"""Shapley values by a weighted least squares over coalitions (Lundberg & Lee, NeurIPS 2017).

Theorem 2 and eq. 8 there, with coalitions drawn in complementary pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import torch
from torch import Tensor

from whyformer.engine.result import MethodResult
from whyformer.engine.run import Run
from whyformer.errors import OptionError
from whyformer.methods.method import method
from whyformer.methods.perturbation.game import make_game
from whyformer.methods.perturbation.units import Unit

PER_FEATURE = 4  # fewer forwards than this per feature, and noise would rule the fit


@method(
    "kernel_shap",
    title="Shapley values of tokens or patches, exact for few and sampled for many",
    paper="Lundberg & Lee, NeurIPS 2017",
    needs=("removal",),
    signed=True,
    sums="completeness",
    slow=True,
)
def kernel_shap(
    run: Run,
    *,
    samples: int = 1024,
    unit: Unit | None = None,
    fill: str | None = None,
    seed: int = 0,
) -> MethodResult:
    """Shapley values of the units in the explained value, shared evenly by a unit's tokens.

    At most `samples` forwards per input. All coalitions are used if there are no more than that
    (10 units for 1024), and the values are exact. Otherwise coalitions are drawn in pairs with
    their complement; `Stream.errors` has the standard error of each score, by the jackknife over
    pairs. The value with no unit left is the sink "baseline": scores + sink = explained value.
    """
    game = make_game(run, fill, unit)
    designs = [_design(len(features), samples, seed) for features in game.features]
    found = game.values([design.coalitions for design in designs])
    fits = [
        _fit(design, values, whole)
        for design, values, whole in zip(designs, found, game.whole, strict=True)
    ]
    baseline = torch.stack([values[0] for values in found])
    return game.result(
        [scores for scores, _ in fits], [errors for _, errors in fits], {"baseline": baseline}
    )


@dataclass(frozen=True)
class _Design:
    """One of each pair of coalitions, the weight of the pair, and whether these are all pairs."""

    pairs: Tensor  # (pairs, features)
    weights: Tensor  # (pairs,)
    exact: bool

    @property
    def coalitions(self) -> Tensor:
        """No feature, then one and then the other coalition of each pair."""
        return torch.cat([torch.zeros_like(self.pairs[:1]), self.pairs, ~self.pairs])


def _design(features: int, samples: int, seed: int) -> _Design:
    if 2**features <= max(samples, 0):
        numbers = torch.arange(1, 2 ** (features - 1))  # without the last feature: half of all
        pairs = (numbers.unsqueeze(1) >> torch.arange(features)) & 1 == 1
        kernel = [
            (features - 1) / (comb(features, size) * size * (features - size))
            for size in pairs.sum(1).tolist()
        ]
        return _Design(pairs, torch.tensor(kernel, dtype=torch.float64), True)
    if samples < PER_FEATURE * features:
        enough = min(2**features, PER_FEATURE * features)
        raise OptionError(
            f"samples={samples} is too few for {features} units",
            argument="samples",
            remedy=f"Pass at least {enough}, or a larger unit=",
        )
    generator = torch.Generator().manual_seed(seed)
    count = (samples - 1) // 2
    sizes = torch.arange(1, features)
    chances = 1 / (sizes * (features - sizes)).double()
    drawn = sizes[torch.multinomial(chances, count, replacement=True, generator=generator)]
    ranks = torch.rand(count, features, generator=generator).argsort(1).argsort(1)
    return _Design(ranks < drawn.unsqueeze(1), torch.ones(count, dtype=torch.float64), False)


def _fit(design: _Design, values: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """The scores and their standard errors, (features,) each.

    Both coalitions of a pair ask for the same: the members' scores sum to the mean of what they
    add to nothing and what they add to their complement.
    """
    count = len(design.pairs)
    nothing, members, others = values[0], values[1 : 1 + count], values[1 + count :]
    pairs, gain = design.pairs.double(), whole - nothing
    asked = (members - nothing + whole - others) / 2
    # Scores sum to the gain: fit what they differ from equal shares, which sums to 0.
    share = pairs.mean(1, keepdim=True)
    centred, rest = pairs - share, asked - gain * share.squeeze(1)
    weighted = centred * design.weights.unsqueeze(1)
    gram = centred.T @ weighted
    inverse = torch.linalg.pinv(gram + 1 / pairs.shape[1], hermitian=True)
    differences = inverse @ (weighted.T @ rest)
    scores = gain / pairs.shape[1] + differences
    if design.exact:
        return scores, torch.zeros_like(scores)
    # What the scores would change by without each pair, in closed form.
    leverage = (weighted @ inverse * centred).sum(1)
    missed = (rest - centred @ differences) / (1 - leverage).clamp(min=1e-6)
    changes = weighted @ inverse * missed.unsqueeze(1)
    spread = (changes - changes.mean(0)).square().sum(0)
    return scores, (spread * (count - 1) / count).sqrt()

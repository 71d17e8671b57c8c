"""Conservation: does relevance sum to the output? (Ali et al., ICML 2022, sec. 5.1)."""

from __future__ import annotations

from typing import Literal

import torch

from whyformer.attribution import Attribution
from whyformer.metrics.metric import metric
from whyformer.metrics.score import Score
from whyformer.metrics.token_order import finite_scores
from whyformer.statistics.ranks import pearson


@metric(
    "conservation",
    title="Conservation: does relevance sum to the output?",
    paper="Ali et al.: XAI for Transformers, ICML 2022",
    better="lower",
    range=(0.0, 2.0),
    convention="|sum of relevance - output| over the larger of the two; 0 is conserved.",
    signed=True,
)
def conservation(
    attribution: Attribution,
    *,
    error: Literal["relative", "absolute"] = "relative",
    sinks: bool = False,
) -> Score:
    """Difference of the tokens' summed relevance from the explained value, (batch,).

    The relative error is divided by the larger of the two, so that an output near 0 does not
    dominate a mean: 1 means that nothing was conserved, more than 1 the wrong sign. With `sinks`,
    the relevance that biases absorbed is added. If layers were kept, the curve has the relevance
    sum after each. `parts` has both sides, for the paper's scatter plot and for `correlation`.
    """
    output = attribution.output.detach().double()
    relevance = torch.zeros_like(output)
    for stream in attribution.streams.values():
        scores = finite_scores(stream.scores, stream.mask).double() * stream.mask
        relevance = relevance + scores.sum(1).to(output.device)
    if sinks:
        for absorbed in attribution.sinks.values():
            relevance = relevance + absorbed.detach().double().to(output.device)
    values = (relevance - output).abs()
    if error == "relative":
        scale = torch.maximum(relevance.abs(), output.abs())
        values = values / scale.where(scale > 0, 1)
    sums = {
        i: layer.relevance_sum.detach().double()
        for i, layer in enumerate(attribution.layers)
        if layer.relevance_sum is not None
    }
    return Score(
        values,
        torch.stack(list(sums.values()), 1) if sums else None,
        tuple(float(i) for i in sums) if sums else None,
        f"{error} difference of the summed relevance of all tokens"
        f"{' and sinks' if sinks else ''} from the explained value"
        f"{', over the larger of the two' if error == 'relative' else ''}",
        {"relevance": relevance, "output": output},
    )


def correlation(score: Score) -> float:
    """Pearson's correlation of summed relevance and output over all samples of a score."""
    relevance, output = (score.parts[name].unsqueeze(0) for name in ("relevance", "output"))
    return float(pearson(relevance, output, torch.ones_like(output, dtype=torch.bool)))

"""Conservation: does relevance sum to the output? (Ali et al., ICML 2022, sec. 5.1)."""

from __future__ import annotations

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
    better="higher",
    range=(-1.0, 1.0),
    convention="Scores and sinks over the output, or its inverse above 1; 1 is conserved.",
    signed=True,
)
def conservation(attribution: Attribution, *, sinks: bool = True) -> Score:
    """Summed relevance over the explained value, the smaller over the larger, (batch,).

    It is the ratio of `Attribution.conservation`, and its inverse if that exceeds 1 in size: half
    and twice the output both have 0.5, so that no output near 0 dominates a mean and no excess
    makes up for a loss. 1 is perfect, 0 means that nothing was conserved, less than 0 the wrong
    sign. `sinks=False` leaves out the relevance that no token received. If layers were kept, the
    curve has the relevance sum after each. `parts` has both sides, for the paper's scatter plot
    and for `correlation`.
    """
    output = attribution.output.detach().double()
    relevance = torch.zeros_like(output)
    for stream in attribution.streams.values():
        scores = finite_scores(stream.scores, stream.mask).double() * stream.mask
        relevance = relevance + scores.sum(1).to(output.device)
    if sinks:
        for absorbed in attribution.sinks.values():
            relevance = relevance + absorbed.detach().double().to(output.device)
    scale = torch.maximum(relevance.abs(), output.abs())
    # Without relevance an output of 0 is conserved.
    values = torch.where(scale > 0, 1 - (relevance - output).abs() / scale.where(scale > 0, 1), 1)
    sums = {
        i: layer.relevance_sum.detach().double()
        for i, layer in enumerate(attribution.layers)
        if layer.relevance_sum is not None
    }
    return Score(
        values,
        torch.stack(list(sums.values()), 1) if sums else None,
        tuple(float(i) for i in sums) if sums else None,
        f"summed relevance of all tokens{' and sinks' if sinks else ''} over the explained value,"
        " the inverse if it exceeds 1 in size; 1 is conserved",
        {"relevance": relevance, "output": output},
    )


def correlation(score: Score) -> float:
    """Pearson's correlation of summed relevance and output over all samples of a score."""
    relevance, output = (score.parts[name].unsqueeze(0) for name in ("relevance", "output"))
    return float(pearson(relevance, output, torch.ones_like(output, dtype=torch.bool)))

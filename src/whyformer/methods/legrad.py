"""LeGrad: positive gradients of all attention maps, added up (Bousselham et al., ICCV 2025)."""

from __future__ import annotations

from torch import Tensor

from whyformer.engine.passes.attentions import attentions
from whyformer.engine.result import MethodResult, Scores
from whyformer.engine.run import Run
from whyformer.engine.streamed_layers import AnyLayer, map_dtype, map_rows
from whyformer.methods.method import method

# Less attention than this is none. Not 0: what rounds to 0 depends on the precision.
HIDDEN = 1e-30


@method(
    "legrad",
    title="Positive gradient of every attention map, averaged over heads and queries",
    paper="Bousselham et al., ICCV 2025",
    needs=("attention", "gradient"),
    signed=False,
)
def legrad(run: Run, *, start_layer: int = 0) -> MethodResult:
    """How much more attention to each token would raise the explained value, over all layers.

    The gradient is that of the model's own output. The paper also reads an output off every layer,
    which needs a head that fits all of them.
    """
    seen = attentions(run, gradient=True, first=start_layer)
    scores: Scores = {}
    for layer in seen.layers:
        found = _key_scores(layer, *(seen.layout.masks[s] for s in (layer.asking, layer.answering)))
        before = scores.get(layer.answering)
        scores[layer.answering] = found if before is None else before + found
    return seen.result(scores)


def _key_scores(layer: AnyLayer, queries: Tensor, keys: Tensor) -> Tensor:
    """The positive gradient, its mean over heads and real queries, (batch, key tokens).

    Entries that a mask hides cannot change, so they do not count: no head attends there.
    """
    weights = queries.to(map_dtype(layer))
    weights = weights / weights.sum(1, keepdim=True)
    scores = weights.new_zeros(keys.shape)
    for some, seen, (attention, gradient) in map_rows(layer, ("attention", "gradient")):
        positive = gradient.clamp(min=0).mean(1) * (attention > HIDDEN).any(1)
        scores[:, seen] += (weights[:, None, some] @ positive).squeeze(1)
    return scores

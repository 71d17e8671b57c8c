"""Generic attention relevance within and between streams (Chefer et al., ICCV 2021, eqs. 5-11)."""

from __future__ import annotations

from whyformer.engine.capture import Capture, Scores
from whyformer.methods.attention.mixing import meet, mixings, walk, wanted
from whyformer.methods.attention.relevancy import propagated
from whyformer.methods.method import method


@method(
    "gae",
    title="Attention x its gradient, propagated from layer to layer and between streams",
    paper="Chefer et al., ICCV 2021, eqs. 5-11",
    promises=("nonnegative",),
)
def gae(
    capture: Capture,
    *,
    start_layer: int = 0,
    normalize: bool | None = None,
    use_lrp: bool = False,
    self_in_rule_10: bool = True,
    aggregate: bool = True,
    reduce: str = "row",
) -> Scores:
    """Relevance of every token to the deciding token.

    The deciding token starts by explaining only itself; each layer adds what its heads mixed in,
    weighted by how much the target wanted that mixing. Where streams meet, `normalize` is eqs.
    8-9 and on by default; within one stream it makes rows add up to 1 and is off. `use_lrp` takes
    the attention's relevance in place of the attention; the other two are the authors' ablations.
    """
    if use_lrp:
        layers = capture.relevances("ours", first=start_layer)
    else:
        layers = capture.attentions(gradient=True, first=start_layer)
    found = mixings(layers, ("relevance" if use_lrp else "attention", "gradient"), wanted)
    if not meet(found):
        return walk(capture, found, reduce, normalize=bool(normalize))
    maps = propagated(
        capture,
        found,
        normalize=normalize is not False,
        self_in_rule_10=self_in_rule_10,
        aggregate=aggregate,
    )
    return capture.read_maps(maps, reduce)

"""LRP from the output down to tokens, patches and pixels (baseline of CVPR 2021)."""

from __future__ import annotations

from dataclasses import replace

from whyformer.attribution import Reason
from whyformer.engine.half_precision import has_half_weights
from whyformer.engine.passes.relevances import relevances
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run
from whyformer.methods.method import check_choice, method


@method(
    "full_lrp",
    title="LRP all the way down to tokens, patches and pixels",
    paper="Binder et al. 2016; baseline of Chefer et al. 2021",
    needs=("attention", "relevance"),
    signed=True,
    rules="relevance",
    keeps=("relevance",),
)
def full_lrp(run: Run, *, rules: str = "orig") -> MethodResult:
    """Relevance of each token's state.

    For images alone, `streams["image"].pixels` has it per pixel, by the z^B rule.
    """
    check_choice("rules", rules, ("ours", "orig"))
    has_patches = run.batch.grid is not None and run.batch.image is not None
    one_stream = not run.batch.others and run.stacks.only is not None
    reach = "pixels" if has_patches and one_stream else "states"
    seen = relevances(run, rules, gradient=False, reach=reach)
    result = seen.result({name: wide(r).sum(-1) for name, r in seen.state_relevance.items()})
    return replace(result, reasons=(*result.reasons, *_precision(run)))


def _precision(run: Run) -> tuple[Reason, ...]:
    """The warning that rounded weights may change the order of the scores."""
    if not has_half_weights(run.module):
        return ()
    text = (
        "full_lrp divides by sums that nearly cancel, and the model is in half precision: the"
        " order of the scores may be wrong. Use float64 weights or another method."
    )
    return (Reason("precision", "warning", text, culprits=("full_lrp",)),)

"""LRP from the output down to tokens, patches and pixels (baseline of CVPR 2021)."""

from __future__ import annotations

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
    return seen.result({name: wide(r).sum(-1) for name, r in seen.state_relevance.items()})

"""Layer-averaged balanced gradient x state (LibraGrad with FullGrad+, Mehri et al., CVPR 2025)."""

from __future__ import annotations

from whyformer.engine.passes.balanced import balanced
from whyformer.engine.result import MethodResult
from whyformer.engine.rules.rule_sets import balanced_rules
from whyformer.engine.run import Run
from whyformer.methods.method import check_choice, method


@method(
    "libragrad",
    title="Balanced gradient x state, averaged over the inputs of all blocks",
    paper="Mehri et al., CVPR 2025 (LibraGrad, FullGrad+); rules of Ali et al., ICML 2022",
    needs=("gradient",),
    signed=True,
    sums="conservation",
    rules="detach",
    keeps=("nodes",),
)
def libragrad(
    run: Run,
    *,
    start_layer: int = 0,
    end_layer: int | None = None,
    products: str = "half",
    biases: str = "sinks",
    routers: str = "constant",
) -> MethodResult:
    """Relevance that adds up, with the mean of the sinks, to the explained value.

    Attention weights, the parameters of recurrences, norm deviations and activation gates are
    constants. At the input of each block, state x gradient and the sinks above it sum to the
    explained value, and so does their mean over the blocks `start_layer` to `end_layer`; blocks
    that relevance passes beside are left out. A product of two branches gives "half" to each, or by
    products="gate" all to the branch without the activation. biases="tokens" adds the relevance of
    each bias to the token at which it was added.

    In a mixture of experts all relevance goes through the chosen experts, and the router's weights
    are constants. routers="half" gives half of it to a router's softmax; what that cannot pass on
    is the sink "router". Routers without a softmax stay constants.
    """
    check_choice("products", products, ("half", "gate"))
    check_choice("biases", biases, ("sinks", "tokens"))
    check_choice("routers", routers, ("constant", "half"))
    rules = balanced_rules(products, routers)
    seen = balanced(run, maps=False, rules=rules, per_token=biases == "tokens")
    return seen.average_result(
        {stack: range(count)[start_layer:end_layer] for stack, count in seen.block_counts.items()}
    )

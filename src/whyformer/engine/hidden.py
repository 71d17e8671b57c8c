"""Operations that run where the interception cannot see them: their names, and what to say."""

from __future__ import annotations

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from whyformer.attribution import Reason
from whyformer.engine.rules.ledger import Ledger


def hidden_operation(tensor: Tensor) -> str:
    """Return a name for the operation that computed a tensor, read off its autograd node.

    Custom autograd functions have a class. Of scripted or traced code, and of extensions, only the
    last operation is known.
    """
    node = tensor.grad_fn
    assert node is not None  # only tracked tensors are hidden
    if isinstance(node, BackwardCFunction):
        return f"the autograd function {type(node).__name__.removesuffix('Backward')}"
    last = node.name().rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")
    if not last or "DifferentiableGraph" in last or "Cpp" in last:
        return "code compiled by torch.jit"
    return f"code compiled by torch.jit or in C++ (ends with {last})"


def cut_reasons(ledger: Ledger) -> tuple[Reason, ...]:
    """Return a warning if numbers that were computed with gradients off enter the result."""
    if not ledger.cut.used:
        return ()
    names = " and ".join(ledger.cut.used)
    return (
        Reason(
            "operations",
            "warning",
            f"The model computes a part of its token states with gradients off (torch.no_grad) in"
            f" {names} and goes on with them as constants: the scores leave out what the tokens do"
            " through that part.",
            tuple(ledger.cut.used),
        ),
    )


def hidden_reasons(ledger: Ledger) -> tuple[Reason, ...]:
    """Return a warning if hidden operations ran and their loss could not be measured."""
    if not ledger.hidden or ledger.keeps_sum:
        return ()
    names = " and ".join(ledger.hidden)
    return (
        Reason(
            "operations",
            "warning",
            f"The model computes with {names}, which no rule can see: relevance follows the"
            " gradient there.",
            tuple(ledger.hidden),
        ),
    )

"""Whether the tokens of a packed vision tower are its patches, in their order.

Some towers sort the patches by windows before their first block. The scores of their tokens would
be right and at the wrong places.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.run import Run
from whyformer.engine.scope import add_hooks
from whyformer.engine.state_hooks import first_floating
from whyformer.engine.token_mixing import weights_like
from whyformer.errors import ModelError
from whyformer.inputs.sequence import narrow_to_module

ROUNDS = 4


def check_patch_order(run: Run) -> None:
    """Raise ModelError unless each token that enters the first block is made of its patch alone.

    With a random sign for each token, the gradient at a patch has the sign of its token.
    """
    patches, states = _first_states(run)
    weights = weights_like(states[0])
    (plain,) = torch.autograd.grad((states * weights).sum(), patches, retain_graph=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(ROUNDS):
        signs = torch.randint(2, (len(states), 1), generator=generator).to(states) * 2 - 1
        (slope,) = torch.autograd.grad((states * signs * weights).sum(), patches, retain_graph=True)
        alike = torch.cosine_similarity(plain.double(), slope.double(), dim=1)
        if len(states) != len(patches) or bool((alike * signs[:, 0] < 0.9).any()):
            raise ModelError(
                f"{run.name} sorts or mixes the patches of '{run.batch.carrier}' before its first"
                " block, as towers with windows do: whyformer cannot tell which token is which"
                " patch",
                argument="inputs",
                remedy="Explain the whole model instead, with the text that has the placeholders of"
                " the image",
            )


def _first_states(run: Run) -> tuple[Tensor, Tensor]:
    """The patches, and the states (tokens, hidden) that a plain forward makes of them."""
    seen: list[Tensor] = []

    def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states = first_floating(args, kwargs)
        if states is not None:
            seen.append(states)

    arguments = narrow_to_module(run.batch.arguments, run.module)
    patches = arguments[run.batch.carrier].detach().requires_grad_()
    (track,) = run.stacks.tracks.values()
    with add_hooks([(track.chain[0], "before", before)]), torch.enable_grad():
        run.module(**{**arguments, run.batch.carrier: patches})
    return patches, seen[0].reshape(-1, seen[0].shape[-1])

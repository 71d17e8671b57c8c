"""Several explanations of one input, to be looked at together: methods, targets, or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from whyformer.attribution import Attribution, View, Viewable
from whyformer.errors import InputError
from whyformer.explain import explain

# One of each kind: conservative twice, plain gradient, attention with gradient, attention alone.
HANDFUL = ("lrp_ah_ln", "attn_lrp", "gradient_x_input", "gae", "rollout")


def usual(targets: int) -> tuple[str, ...]:
    """The methods that are compared where none is named: of several targets, one method's."""
    return HANDFUL if targets == 1 else HANDFUL[:1]


@dataclass(frozen=True)
class Comparison(Viewable):
    """Attributions of one input; pages and pictures show them side by side.

    Those that differ by target only share a colour scale, and a page switches between them.
    """

    attributions: tuple[Attribution, ...]

    def __iter__(self) -> Iterator[Attribution]:
        return iter(self.attributions)

    def __len__(self) -> int:
        return len(self.attributions)

    def __getitem__(self, index: int) -> Attribution:
        return self.attributions[index]

    def _render(self, view: View, options: dict[str, Any]) -> str | bytes:
        return view.render_comparison(self.attributions, **options)


def compare(
    inputs: Any,
    model: nn.Module | str | None = None,
    *,
    methods: Sequence[str] | None = None,
    targets: Sequence[Any] = (None,),
    **settings: Any,
) -> Comparison:
    """Every method's answer for every target, as a `Comparison`.

    Without methods named, a handful of different kinds; with several targets ("why A, why B, why
    A rather than B": `[0, 1, contrast(0, 1)]`) the default method alone. The rest as in `explain`.
    """
    if isinstance(methods, str) or isinstance(targets, str):
        raise InputError("methods and targets are lists: write methods=['gae'], targets=['A', 'B']")
    if methods is None:
        methods = usual(len(targets))
    if not methods or not targets:
        raise InputError("name one method and one target at the least, or leave them out")
    return Comparison(
        tuple(
            explain(inputs, model, method=method, target=target, **settings)
            for method in methods
            for target in targets
        )
    )

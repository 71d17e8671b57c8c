"""Several explanations of one input side by side: methods, targets, or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from torch import nn

from whyformer.attribution import Attribution, View, Viewable
from whyformer.errors import InputError
from whyformer.methods import methods as known
from whyformer.models.load import Loaded
from whyformer.options import DEFAULT_METHOD, refuse_positional
from whyformer.pipeline.explain_each import Ask, explain_each
from whyformer.render.comparison import OWN, check_scale

# One of each kind: conservative twice, plain gradient, attention with gradient, attention alone.
DEFAULT_METHODS = (DEFAULT_METHOD, "attn_lrp", "gradient_x_input", "gae", "rollout")


def default_methods(targets: int) -> tuple[str, ...]:
    """Return the methods to compare if none is named: one method if there are several targets."""
    return DEFAULT_METHODS if targets == 1 else DEFAULT_METHODS[:1]


@dataclass(frozen=True)
class Comparison(Viewable):
    """Attributions of one input; pages and pictures show them side by side.

    Attributes:
        attributions: One per method and target.
        scale: "own" colours each attribution by its own strongest word or patch, "shared" all of
            them by the strongest of all.
    """

    attributions: tuple[Attribution, ...]
    scale: str = OWN

    def __iter__(self) -> Iterator[Attribution]:
        return iter(self.attributions)

    def __len__(self) -> int:
        return len(self.attributions)

    def __getitem__(self, index: int) -> Attribution:
        return self.attributions[index]

    def _render(self, view: View, options: dict[str, Any]) -> str | bytes:
        own = {"scale": self.scale} if "scale" in view.comparison_options else {}
        return view.render_comparison(self.attributions, **own, **options)


def compare(
    inputs: Any,
    model: nn.Module | str | Loaded | None = None,
    *misplaced: Any,
    methods: Sequence[str] | None = None,
    targets: Sequence[Any] = (None,),
    scale: str = OWN,
    processor: Any = None,
    truncation: bool = False,
    tokens: str | None = None,
    max_new_tokens: int | None = None,
    **settings: Any,
) -> Comparison:
    """Explain one input with every method for every target.

    The model is loaded and the input prepared once.

    Args:
        inputs: One batch of inputs, as in `explain`.
        model: As in `explain`.
        *misplaced: Must be empty: everything else is given by name.
        methods: Names of methods. By default five of different kinds: "auto", "attn_lrp",
            "gradient_x_input", "gae" and "rollout"; only "auto" if there are several targets.
        targets: What to explain, such as `[0, 1, contrast(0, 1)]` for "why A, why B, why A rather
            than B".
        scale: "own" gives each attribution its own colour scale, as the papers' figures do:
            compare order and sign. "shared" gives all of them one scale, so that sizes can be
            compared; only for methods whose scores sum to the output.
        processor: As in `explain`.
        truncation: As in `explain`.
        tokens: As in `explain`.
        max_new_tokens: As in `explain`.
        **settings: `keep`, `memory`, `blocks`, `batch_first`, `deciding`, `strict` and
            `check_precision` as in `explain`, and options that all of these methods have.

    Returns:
        A `Comparison` of one attribution per method and target.

    Raises:
        InputError: Methods or targets are no lists or empty, or the inputs cannot be read.
        OptionError: A setting is unknown or has a bad value, or `scale` does not fit a method.
        ModelError: The model cannot be loaded, run or explained.
        TrustError: A result is doubtful, and `strict` is set.

    Example:
        >>> import whyformer as wf
        >>> both = wf.compare("a gripping film", methods=["gae", "rollout"])
        >>> [one.method for one in both]
        ['gae', 'rollout']
    """
    refuse_positional("compare", misplaced)
    if isinstance(methods, str) or isinstance(targets, str):
        raise InputError(
            "methods and targets are lists",
            argument="methods",
            remedy="Write methods=['gae'], targets=['A', 'B']",
        )
    methods = default_methods(len(targets)) if methods is None else methods
    if not methods or not targets:
        raise InputError(
            "methods or targets are empty",
            argument="methods",
            remedy="Name at least one method and one target, or leave them out",
        )
    check_scale(scale, [name for name in methods if not known[name].promises_sum])
    answers = explain_each(
        inputs,
        model,
        [Ask(method, target, settings) for method, target in product(methods, targets)],
        processor=processor,
        truncation=truncation,
        tokens=tokens,
        max_new_tokens=max_new_tokens,
    )
    found = tuple(answer.attribution for answer in answers if answer.attribution)
    return Comparison(found, scale)

"""whyformer's methods with the interface of Captum's `Attribution`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.attribution import Attribution as Result
from whyformer.attribution.optional_package import import_package
from whyformer.attribution.pixel_scores import pixel_scores
from whyformer.errors import InputError, OptionError
from whyformer.explain import explain
from whyformer.methods import methods
from whyformer.models.signature import forward_of
from whyformer.options import DEFAULT_METHOD
from whyformer.targets.resolve import token

_base = import_package("captum.attr", "whyformer.captum").Attribution

# Parts of names of arguments that are no tokens themselves.
BESIDE = ("mask", "type", "position")


class Attribution(_base):  # type: ignore[misc, valid-type]
    """A method of whyformer that is called as Captum's algorithms are.

    Args:
        model: The model, an `nn.Module`. Captum's other algorithms also take functions.
        method: The name of a method; see `whyformer.methods()`.
        **settings: Further arguments of `whyformer.explain`, also options of the method.

    Raises:
        OptionError: The model is no `nn.Module`.
        UnknownNameError: There is no such method.

    Example:
        >>> from whyformer.captum import Attribution
        >>> relevance = Attribution(model, method="attn_lrp")  # doctest: +SKIP
        >>> relevance.attribute(ids, target=1, additional_forward_args=(mask,))  # doctest: +SKIP
    """

    def __init__(self, model: nn.Module, method: str = DEFAULT_METHOD, **settings: Any) -> None:
        if not isinstance(model, nn.Module):
            raise OptionError(
                f"the model is a {type(model).__name__}: whyformer looks into the modules",
                argument="model",
                remedy="Pass the nn.Module itself, not a function around it",
            )
        super().__init__(model)
        self.method = methods[method]
        self.settings = settings

    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        target: Any = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """Return scores with the shape of the inputs.

        Args:
            inputs: Token ids, (batch, tokens), or pixel values, (batch, channels, height, width),
                as forward's first argument takes them; or a tuple of forward's first arguments.
            target: A class, one class per sample, or (position, class) for a class per token. None
                for the predicted class.
            additional_forward_args: Forward's next arguments, such as the attention mask.
            return_convergence_delta: Whether to return also what is missing in the sum.

        Returns:
            A tensor or a tuple of tensors. Of several inputs those that are no tokens or pixels
            get 0. A patch's score is shared out evenly over its pixels and channels. With
            `return_convergence_delta` also (batch,): scores plus sinks minus the output.

        Raises:
            InputError: The inputs do not fit the model's forward.
            OptionError: The method does not conserve, so that it has no convergence delta.
        """
        if return_convergence_delta and not self.has_convergence_delta():
            raise OptionError(
                f"method '{self.method.name}' does not conserve: it has no convergence delta",
                argument="return_convergence_delta",
                remedy="Leave it out, or use method='libragrad'",
            )
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        arguments = self._arguments(given, additional_forward_args)
        found = explain(
            arguments,
            self.forward_func,
            method=self.method.name,
            target=_target(target),
            **self.settings,
        )
        names = forward_of(self.forward_func).names
        scores = tuple(_like(*pair, found) for pair in zip(names, given, strict=False))
        if not any(bool(part.any()) for part in scores) and bool(found.scores.any()):
            raise InputError(
                f"no input has the shape of the scores, {tuple(found.scores.shape)}",
                argument="inputs",
                remedy="Pass token ids or pixel values as inputs",
            )
        result = scores if isinstance(inputs, tuple) else scores[0]
        return (result, _delta(found)) if return_convergence_delta else result

    def has_convergence_delta(self) -> bool:
        """Return whether the method's scores and sinks sum to the output."""
        return self.method.promises_sum

    def _arguments(self, inputs: Sequence[Tensor], more: Any) -> dict[str, Any]:
        """The arguments of forward by name."""
        names = forward_of(self.forward_func).names
        values = [*inputs, *(more if isinstance(more, tuple) else () if more is None else (more,))]
        if len(values) > len(names):
            raise InputError(
                f"there are {len(values)} inputs and forward takes {', '.join(names)}",
                argument="inputs",
                remedy="Pass them in this order",
            )
        return {name: v for name, v in zip(names, values, strict=False) if v is not None}


def _target(target: Any) -> Any:
    """Captum's target as one of ours: (position, class) is a token."""
    if isinstance(target, tuple) and len(target) == 2:
        return token(*target)
    if isinstance(target, list) and target and all(isinstance(one, tuple) for one in target):
        return [token(*one) for one in target]
    return target


def _like(name: str, value: Tensor, found: Result) -> Tensor:
    """The scores in the shape of one input; 0 if it holds neither tokens nor pixels."""
    for stream in () if any(word in name for word in BESIDE) else found.streams.values():
        is_image, scores = stream.grid is not None, stream.scores.to(value.device)
        if value.ndim == 4 and is_image:
            pixels = pixel_scores(stream, *value.shape[-2:]) / value.shape[1]
            return pixels[:, None].expand(value.shape).to(value.device)
        if value.ndim == 2 and not is_image and value.shape == scores.shape:
            return scores
        if value.ndim == 3 and not is_image and value.shape[:2] == scores.shape:
            return (scores / value.shape[2])[..., None].expand(value.shape)
    return torch.zeros(value.shape, device=value.device)


def _delta(found: Result) -> Tensor:
    """What the scores and sinks sum to beyond the output, (batch,)."""
    total = sum((stream.scores.sum(1) for stream in found.streams.values()), found.output * 0)
    return total + sum(found.sinks.values(), found.output * 0) - found.output

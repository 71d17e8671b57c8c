"""Where a loaded model goes, and in which precision: `device=` and `dtype=` of `explain`."""

from __future__ import annotations

from typing import Any

import torch

from whyformer.errors import OptionError

Placement = dict[str, Any]  # keywords of `nn.Module.to`


def read_placement(device: torch.device | str | None, dtype: torch.dtype | str | None) -> Placement:
    """Return the keywords for `module.to`; raise OptionError if there is no such device or dtype.

    A dtype may be a name, such as "float64".
    """
    place: Placement = {}
    if device is not None:
        try:
            place["device"] = torch.device(device)
            torch.empty(0, device=place["device"])
        except (RuntimeError, AssertionError, TypeError) as error:
            raise OptionError(
                f"device={device!r} cannot be used: {str(error).splitlines()[0]}",
                argument="device",
                remedy="Pass the name of a device of this machine, such as 'cpu'",
            ) from error
    if dtype is not None:
        found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
        if not isinstance(found, torch.dtype) or not found.is_floating_point:
            raise OptionError(
                f"dtype={dtype!r} is no floating type",
                argument="dtype",
                remedy="Pass torch.float32, torch.float64, torch.bfloat16 or torch.float16",
            )
        place["dtype"] = found
    return place


def refuse_placement(place: Placement, name: str) -> None:
    """Raise OptionError if a model that the user loaded should be moved: it stays as it is."""
    if place:
        raise OptionError(
            f"{' and '.join(f'{key}=' for key in place)} moves models that whyformer loads, and"
            f" {name} was passed as a module",
            argument=next(iter(place)),
            remedy="Call model.to(...) first",
        )

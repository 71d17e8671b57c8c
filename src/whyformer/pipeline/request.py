"""The request: the checked settings of `explain`, without inputs, model and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whyformer.engine.deciding_tokens import check_deciding
from whyformer.engine.run import CHECKPOINT, MAPS
from whyformer.errors import OptionError
from whyformer.methods import Method, methods
from whyformer.targets.answer_rows import check_each

# Where relevance of images is read in a language model: see `Run.image_scale`.
IMAGE_SCALES = ("tokens", "patches", "both")


@dataclass(frozen=True)
class Request:
    """How to explain: the method, its options, and the settings of `explain`."""

    method: Method
    options: Mapping[str, Any] = field(default_factory=dict)
    keep: frozenset[str] = frozenset()
    memory: str | None = None
    blocks: str | None = None
    batch_first: bool | None = None
    deciding: str | int | None = None
    strict: bool = False
    check_precision: bool = False
    each: str | None = None
    image_scale: str = "tokens"


def make_request(
    method: str,
    /,
    *,
    keep: str | Sequence[str] = (),
    memory: str | None = None,
    blocks: str | None = None,
    batch_first: bool | None = None,
    deciding: str | int | None = None,
    strict: bool = False,
    check_precision: bool = False,
    each: str | None = None,
    image_scale: str = "tokens",
    **options: Any,
) -> Request:
    """Return the request; raise OptionError or UnknownNameError before any model is loaded.

    What is not a setting of `explain` is an option of the method.
    """
    chosen = methods[method]
    chosen.check(options)
    check_deciding(deciding)
    check_each(each)
    kept = _check_keep(keep, chosen)
    _check_memory(memory, kept, chosen)
    _check_scale(image_scale, chosen)
    for name, value in (("strict", strict), ("check_precision", check_precision)):
        if not isinstance(value, bool):
            raise OptionError(f"{name}={value!r}", argument=name, remedy="Pass True or False")
    return Request(
        chosen,
        options,
        kept,
        memory,
        blocks,
        batch_first,
        deciding,
        strict,
        check_precision,
        each,
        image_scale,
    )


def _check_scale(scale: str, method: Method) -> None:
    """Raise OptionError if `image_scale` is unknown, or the method stops at the image's tokens."""
    if scale not in IMAGE_SCALES:
        raise OptionError(
            f"image_scale={scale!r} is unknown",
            argument="image_scale",
            remedy=f"Use {', '.join(map(repr, IMAGE_SCALES[:-1]))} or {IMAGE_SCALES[-1]!r}",
        )
    if scale != "tokens" and not _passes_towers(method):
        fitting = [f"'{one.name}'" for one in methods.values() if _passes_towers(one)]
        raise OptionError(
            f"image_scale={scale!r} follows relevance through the image encoder, and method"
            f" '{method.name}' stops at the tokens of the language model",
            argument="image_scale",
            remedy=f"Leave it out, or use one of the methods {', '.join(fitting)}",
        )


def _passes_towers(method: Method) -> bool:
    """Whether its scores are state x gradient under rules that an encoder can run under too."""
    return method.rules == "detach" and not _reads_maps(method)


def _check_keep(keep: str | Sequence[str], method: Method) -> frozenset[str]:
    """Return the names in `keep`; raise OptionError if the method cannot keep one of them."""
    names = [keep] if isinstance(keep, str) else keep
    is_list = isinstance(names, (list, tuple, set, frozenset))
    if not is_list or not all(isinstance(name, str) for name in names):
        raise OptionError(
            f"keep={keep!r} is not a list of names",
            argument="keep",
            remedy="Pass a name or a list of names",
        )
    for name in sorted(frozenset(names) - set(method.keeps)):
        raise OptionError(
            f"method '{method.name}' cannot keep {name!r}",
            argument="keep",
            remedy=f"It can keep {', '.join(map(repr, method.keeps))}",
        )
    return frozenset(names)


def _check_memory(memory: str | None, keep: frozenset[str], method: Method) -> None:
    """Raise OptionError if `memory` is unknown, or conflicts with `keep` or the method."""
    if memory not in (None, "maps", "streamed", CHECKPOINT):
        raise OptionError(
            f"memory={memory!r} is unknown",
            argument="memory",
            remedy="Use 'maps', 'streamed' or 'checkpoint'",
        )
    if memory == CHECKPOINT and _reads_maps(method) and not _fits_checkpoints(method):
        fitting = [
            f"'{one.name}'" for one in methods.values() if _fits_checkpoints(one) and not one.alias
        ]
        raise OptionError(
            f"memory='checkpoint' drops the attention maps that method '{method.name}' reads",
            argument="memory",
            remedy=f"Use memory='streamed', or one of the methods {', '.join(fitting)}",
        )
    inside = sorted(keep - {"states", "maps"}) if memory == CHECKPOINT else []
    if inside:
        raise OptionError(
            f"memory='checkpoint' drops what is inside the blocks, and keep={inside} asks for it",
            argument="memory",
            remedy="Leave out memory= or keep=",
        )
    maps = sorted(keep & MAPS)
    if memory == "streamed" and maps:
        raise OptionError(
            f"memory='streamed' holds no attention maps, and keep={maps} asks for them",
            argument="memory",
            remedy="Leave out memory= or keep=",
        )


def _fits_checkpoints(method: Method) -> bool:
    """Whether one backward pass, through one block after another, gives all that it reads."""
    return "gradient" in method.needs and "relevance" not in method.needs


def _reads_maps(method: Method) -> bool:
    return bool({"attention", "relevance"} & set(method.needs))

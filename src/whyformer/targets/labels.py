"""Names of classes and tokens, looked up both ways, with errors that list what exists."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import nn

from whyformer.errors import TargetError
from whyformer.registry import nearest

NAMES_SHOWN = 10


class ClassNames:
    """The classes of a model: names from its config, numbers where it has none."""

    def __init__(self, module: nn.Module, count: int, last: tuple[str, ...] = ()) -> None:
        """`last` names the entries behind those of the config."""
        self.named = getattr(getattr(module, "config", None), "id2label", None) or {}
        self.count, self.last = count, last[-count:]

    @cached_property
    def names(self) -> list[str]:
        """All of them; there may be thousands, and most calls want one."""
        return [self.name(i) for i in range(self.count)]

    def index(self, wanted: int | str) -> int:
        """The number of a class given by number or by name, whatever its case."""
        if isinstance(wanted, int):
            if 0 <= wanted < self.count:
                return wanted
            raise TargetError(f"there is no class {wanted}. {self.listing()}")
        if wanted in self.names:
            return self.names.index(wanted)
        folded = [name.casefold() for name in self.names]
        if wanted.strip().casefold() in folded:
            return folded.index(wanted.strip().casefold())
        if wanted.strip().isdecimal():
            return self.index(int(wanted))
        raise TargetError(
            f"there is no class {wanted!r}.{nearest(wanted, self.names)} {self.listing()}"
        )

    def name(self, index: int) -> str:
        """What the class is called."""
        behind = index - (self.count - len(self.last))
        if behind >= 0:
            return self.last[behind]
        return str(self.named.get(index, self.named.get(str(index), index)))

    def listing(self) -> str:
        """The first classes and how many there are."""
        shown = ", ".join(f"{i} ({name!r})" for i, name in enumerate(self.names[:NAMES_SHOWN]))
        more = f", ... {len(self.names)} in all" if len(self.names) > NAMES_SHOWN else ""
        return f"Classes: {shown}{more}."


class Vocabulary:
    """The tokens of a language model: names from its tokenizer, ids where it has none."""

    def __init__(self, tokenizer: Any | None, count: int) -> None:
        self.tokenizer = tokenizer
        self.count = count

    def index(self, wanted: int | str) -> int:
        """The id of a token given by id or by its text, which must be one token."""
        if isinstance(wanted, int):
            if 0 <= wanted < self.count:
                return wanted
            raise TargetError(
                f"there is no token {wanted}; the model has ids 0 to {self.count - 1}"
            )
        if self.tokenizer is None:
            raise TargetError(
                f"the target {wanted!r} is text and the model came without a tokenizer; pass"
                " processor=, or the token's id"
            )
        ids = self.tokenizer.encode(wanted, add_special_tokens=False)
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        if len(ids) != 1 or ids[0] == unknown:
            # The token may be written with its marker, as in "##ing".
            known = self.tokenizer.get_vocab().get(wanted)
            if known is None:
                pieces = [str(piece) for piece in self.tokenizer.convert_ids_to_tokens(ids)]
                raise TargetError(
                    f"the target {wanted!r} is not one token of this model but"
                    f" {len(pieces)}: {pieces}; pass one of them, a token's id, or a word with a"
                    " space in front"
                )
            ids = [known]
        return self.index(int(ids[0]))

    def name(self, index: int) -> str:
        """The token as text; with its marker where it would be invisible without."""
        if self.tokenizer is None:
            return str(index)
        text = str(self.tokenizer.decode([index]))
        return text if text.strip() else str(self.tokenizer.convert_ids_to_tokens(index))

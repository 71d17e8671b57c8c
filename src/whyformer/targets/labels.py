"""Look up classes and tokens by name or by index, with errors that list what exists."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import nn

from whyformer.errors import TargetError
from whyformer.inputs.words import piece_bytes, scheme_of, visible_text
from whyformer.registry import nearest

NAMES_SHOWN = 10  # in an error
PASS_CLASS = "Pass one of these, or None for the prediction"


class ClassNames:
    """The classes of a model: names from its config, or else numbers."""

    def __init__(self, module: nn.Module, count: int, last: tuple[str, ...] = ()) -> None:
        """Read the names from the config; `last` names the entries that follow them."""
        self.known = getattr(getattr(module, "config", None), "id2label", None) or {}
        self.count, self.last = count, last[-count:]

    @cached_property
    def names(self) -> list[str]:
        """The names of all classes; made on demand because there may be thousands."""
        return [self.name(i) for i in range(self.count)]

    def index(self, target: int | str) -> int:
        """The index of a class, given by index or by name in any case."""
        if isinstance(target, int):
            if 0 <= target < self.count:
                return target
            raise TargetError(
                f"there is no class {target}. {self.listing()}",
                argument="target",
                remedy=PASS_CLASS,
            )
        if target in self.names:
            return self.names.index(target)
        folded = [name.casefold() for name in self.names]
        if target.strip().casefold() in folded:
            return folded.index(target.strip().casefold())
        if target.strip().isdecimal():
            return self.index(int(target))
        raise TargetError(
            f"there is no class {target!r}.{nearest(target, self.names)} {self.listing()}",
            argument="target",
            remedy=PASS_CLASS,
        )

    def name(self, index: int) -> str:
        """The name of a class."""
        beyond = index - (self.count - len(self.last))
        if beyond >= 0:
            return self.last[beyond]
        return str(self.known.get(index, self.known.get(str(index), index)))

    def listing(self) -> str:
        """The first classes and their number, as text."""
        shown = ", ".join(f"{i} ({name!r})" for i, name in enumerate(self.names[:NAMES_SHOWN]))
        more = f", ... {len(self.names)} in all" if len(self.names) > NAMES_SHOWN else ""
        return f"Classes: {shown}{more}"


class Vocabulary:
    """The tokens of a language model: names from its tokenizer, or else ids."""

    def __init__(self, tokenizer: Any | None, count: int) -> None:
        self.tokenizer = tokenizer
        self.count = count

    def index(self, target: int | str) -> int:
        """The id of a token, given by id or by its text, which must be one token."""
        if isinstance(target, int):
            if 0 <= target < self.count:
                return target
            raise TargetError(
                f"there is no token {target}; the model has ids 0 to {self.count - 1}",
                argument="target",
            )
        if self.tokenizer is None:
            raise TargetError(
                f"the target {target!r} is text and the model came without a tokenizer",
                argument="processor",
                remedy="Pass processor=, or the token's id as target",
            )
        ids = self.tokenizer.encode(target, add_special_tokens=False)
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        if len(ids) != 1 or ids[0] == unknown:
            # The user may write the token with its marker, as in "##ing".
            known = self.tokenizer.get_vocab().get(target)
            if known is None:
                pieces = [str(piece) for piece in self.tokenizer.convert_ids_to_tokens(ids)]
                raise TargetError(
                    f"the target {target!r} is not one token of this model but"
                    f" {len(pieces)}: {pieces}",
                    argument="target",
                    remedy="Pass one of them, a token's id, or a word with a space in front",
                )
            ids = [known]
        return self.index(int(ids[0]))

    def name(self, index: int) -> str:
        """The token as text, white space drawn as signs; its bytes if it is part of a character."""
        if self.tokenizer is None:
            return str(index)
        text = str(self.tokenizer.decode([index]))
        if text and "\ufffd" not in text:
            return visible_text(text)
        piece = str(self.tokenizer.convert_ids_to_tokens(index))
        added = index in (getattr(self.tokenizer, "added_tokens_decoder", None) or ())
        data = piece_bytes(piece, scheme_of(self.tokenizer), added)
        try:
            return visible_text(data.decode()) or piece
        except UnicodeDecodeError:
            return f"<0x{data.hex(' ')}>"

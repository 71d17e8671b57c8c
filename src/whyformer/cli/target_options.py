"""The options that say what to explain: a class, a token, a span, an object query, an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from whyformer.cli.arguments import read_target
from whyformer.errors import OptionError
from whyformer.targets.specs import Contrast, Span, Token, at_query

TokenText = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="WORD",
        help="Explain the model's output at one token, such as the entity class of a word: a word"
        " of the text, or a position from 0. --target names the class; by default the predicted"
        " one.",
        show_default=False,
    ),
]
SpanText = Annotated[
    str | None,
    typer.Option(
        "--span",
        metavar="TEXT",
        help="Question answering: explain this answer in the context. Text, or first..last token."
        " Default: the model's answer.",
        show_default=False,
    ),
]
Occurrence = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Which one, from 0, if the text of --token or --span is there several times.",
        show_default=False,
    ),
]
_POSITIONS = re.compile(r"(\d+)\.\.(\d+)")


@dataclass(frozen=True)
class TargetOptions:
    """What --query, --token, --span, --occurrence and --answer say, as typed."""

    query: int | None = None
    token: str | None = None
    span: str | None = None
    occurrence: int | None = None
    answer: str | None = None

    def read(self, target: str | None) -> Any:
        """Return the target for `whyformer.explain`; None for the prediction.

        Args:
            target: The value of --target.

        Raises:
            OptionError: Two options exclude each other.
        """
        places = {"--query": self.query, "--token": self.token, "--span": self.span}
        named = [name for name, value in places.items() if value is not None]
        if len(named) > 1:
            raise OptionError(
                f"{named[0]} and {named[1]} both say where to look", remedy="Pass only one of them"
            )
        whole = "--answer" if self.answer is not None else "--span" if self.span else None
        others = ["--target"] * (target is not None) + [one for one in named if one != whole]
        if whole and others:
            raise OptionError(
                f"{others[0]} and {whole} both name what to explain",
                remedy="Pass only one of them",
            )
        if self.occurrence is not None and self.token is None and self.span is None:
            raise OptionError(
                f"--occurrence {self.occurrence} says which of several equal texts is meant, and"
                " no text is named",
                remedy="Add --token WORD or --span TEXT",
            )
        if self.answer is not None:
            return self.answer
        if self.span is not None:
            return self._read_span(self.span)
        if self.token is not None:
            return self._at_token(self.token, read_target(target))
        return at_query(self.query, read_target(target))

    def _read_span(self, text: str) -> Span:
        positions = _POSITIONS.fullmatch(text)
        if positions and self.occurrence is None:
            return Span(int(positions[1]), int(positions[2]))
        return Span(text, None, self.occurrence)

    def _at_token(self, text: str, label: Any) -> Token | Contrast:
        position: int | str = text
        if re.fullmatch(r"-?\d+", text) and self.occurrence is None:
            position = int(text)
        if isinstance(label, Contrast):
            sides = (label.chosen, label.other)
            return Contrast(*(Token(position, side, self.occurrence) for side in sides))
        return Token(position, label, self.occurrence)

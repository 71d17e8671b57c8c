"""Exceptions and warnings: every user mistake ends in one of these, never in a traceback.

An error has three parts. `message` says what is wrong and names the input. `remedy` says what to
do next, in terms of the Python API. `argument` names the parameter that the remedy changes, so
that the command line and the web page can give the same advice in their own terms.
"""

from __future__ import annotations

import sys
import warnings


class WhyformerError(Exception):
    """The base of all errors that whyformer raises for a user's mistake.

    Args:
        message: What is wrong: what was given and what was expected, without a full stop.
        argument: The parameter of the public call that the user should change, if there is one.
            For a target it can be more specific: "query", "mask_token", or "head" if the model's
            output allows only targets written in Python.
        remedy: What to do next, as one or two sentences without the last full stop.
    """

    def __init__(
        self, message: str, *, argument: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.argument = argument
        self.remedy = remedy

    def __str__(self) -> str:
        return join_sentences(self.message, self.remedy)

    def with_prefix(self, prefix: str) -> WhyformerError:
        """Return the same error with `prefix` before its message, caused by this one."""
        error = type(self)(f"{prefix}: {self.message}", argument=self.argument, remedy=self.remedy)
        error.__cause__ = self
        return error


class InputError(WhyformerError, ValueError):
    """The inputs cannot be read as what the model takes."""


class TargetError(WhyformerError, ValueError):
    """The target names something that the model's output does not have."""


class OptionError(WhyformerError, ValueError):
    """An unknown option, or a value that the option cannot take."""


class UnknownNameError(WhyformerError, KeyError):
    """A method, metric, family, view or model that is not registered."""


class ModelError(WhyformerError, RuntimeError):
    """The model cannot be loaded, run or explained."""


class UnsuitableMethodError(ModelError):
    """The model lacks something that this method needs, and other methods do not.

    Args:
        message: What is wrong.
        unavailable: What the model lacks: attention "maps" that can be multiplied, any
            "attention", or "relevance" rules for its operations.
        remedy: What else the user can do.
    """

    def __init__(
        self,
        message: str,
        *,
        unavailable: str = "",
        argument: str | None = "method",
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, argument=argument, remedy=remedy)
        self.unavailable = unavailable


class NestedCaptureError(ModelError):
    """An explanation was started inside another one, in the same thread."""


class TrustError(WhyformerError, RuntimeError):
    """An explanation is doubtful, and strict=True refuses doubtful ones."""


class TrustWarning(UserWarning):
    """An explanation is doubtful; `attribution.trust` has the reasons."""


class RelevanceWarning(TrustWarning):
    """Relevance grew or vanished between layers: do not trust the scores."""


class ConservationWarning(TrustWarning):
    """A method that conserves relevance lost some, usually in an operation without a rule."""


class SkippedWarning(UserWarning):
    """An input could not be explained and was left out, because on_error="skip"."""


def join_sentences(message: str, remedy: str | None) -> str:
    """Return message and remedy as one text; a message without remedy is returned unchanged."""
    if not remedy:
        return message
    end = "" if message.endswith("?") else "."  # a message can end with "Did you mean 'x'?"
    return f"{message.rstrip('.')}{end} {remedy.rstrip('.')}."


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the location of the user's call: the nearest caller outside of whyformer."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "whyformer" or module.startswith("whyformer.")

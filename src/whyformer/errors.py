"""The exception tree: every mistake a user can make ends in one of these, never in a traceback.

A message says what was given, what was expected, and what to do next.
"""


class WhyformerError(Exception):
    """Anything whyformer refuses to do; the command line prints it without a traceback."""


class InputError(WhyformerError, ValueError):
    """The inputs cannot be read as what the model takes."""


class TargetError(WhyformerError, ValueError):
    """The target names something that the model's output does not have."""


class OptionError(WhyformerError, ValueError):
    """An option that the method does not know, or a value it cannot take."""


class UnknownNameError(WhyformerError, KeyError):
    """A method, metric, family, view or model that is not registered."""

    def __str__(self) -> str:
        # KeyError shows repr(message), which turns a readable sentence into a quoted one.
        return str(self.args[0]) if self.args else ""


class ModelError(WhyformerError, RuntimeError):
    """The model cannot be loaded, run or explained."""


class NestedCaptureError(ModelError):
    """An explanation was started inside another one, in the same thread."""


class RelevanceWarning(UserWarning):
    """Relevance grew or vanished on its way down the layers: the scores rest on little."""


class ConservationWarning(UserWarning):
    """A method promised that relevance is conserved, and an operation without a rule broke it."""


class SkippedWarning(UserWarning):
    """An input that cannot be explained was left out, as the caller wished."""

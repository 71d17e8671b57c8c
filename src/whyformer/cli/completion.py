"""What the shell completes: names of models and methods. Files are the shell's own matter."""

from __future__ import annotations


def complete_model(incomplete: str) -> list[str]:
    """Return the bundled models that begin so."""
    from whyformer.models.bundled import models

    return [name for name in models() if name.startswith(incomplete)]


def complete_method(incomplete: str) -> list[str]:
    """Return the methods that begin so; of a list A,B the last one is completed."""
    from whyformer.methods import methods

    done, comma, last = incomplete.rpartition(",")
    return [f"{done}{comma}{name}" for name in methods if name.startswith(last)]

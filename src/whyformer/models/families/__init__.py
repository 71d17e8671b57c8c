"""Model families as data, one file each; they register by existing."""

from whyformer.models.families.family import (
    Family,
    Pair,
    Source,
    Stack,
    declare,
    families,
    family_of,
)

__all__ = ["Family", "Pair", "Source", "Stack", "declare", "families", "family_of"]

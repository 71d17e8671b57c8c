"""Model families as data, one file each. A file in this folder registers by itself."""

from whyformer.models.families.family import (
    Family,
    Pair,
    Rule,
    Source,
    Stack,
    declare,
    families,
    family_of,
)

__all__ = ["Family", "Pair", "Rule", "Source", "Stack", "declare", "families", "family_of"]

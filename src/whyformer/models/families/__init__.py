"""Model families as data, one file each. Each file registers its family."""

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

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
from whyformer.models.families.soft import Item, Panel, Soft

__all__ = [
    "Family",
    "Item",
    "Pair",
    "Panel",
    "Rule",
    "Soft",
    "Source",
    "Stack",
    "declare",
    "families",
    "family_of",
]

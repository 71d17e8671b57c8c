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
from whyformer.models.families.soft import Item, Panel, Soft, Tower

__all__ = [
    "Family",
    "Item",
    "Pair",
    "Panel",
    "Rule",
    "Soft",
    "Source",
    "Stack",
    "Tower",
    "declare",
    "families",
    "family_of",
]

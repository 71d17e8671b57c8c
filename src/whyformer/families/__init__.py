"""Model families as data, one file each; they register by existing."""

from whyformer.families.family import Family, families, family_of

__all__ = ["Family", "families", "family_of"]

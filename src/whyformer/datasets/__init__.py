"""Readers of published file formats, one file each; they register by existing."""

from whyformer.datasets.dataset import (
    Contents,
    Dataset,
    Format,
    Report,
    Row,
    RowError,
    Sample,
    Spot,
    dataset,
    datasets,
)
from whyformer.datasets.mask import Mask
from whyformer.datasets.open import open_dataset

__all__ = [
    "Contents",
    "Dataset",
    "Format",
    "Mask",
    "Report",
    "Row",
    "RowError",
    "Sample",
    "Spot",
    "dataset",
    "datasets",
    "open_dataset",
]

"""Dataset readers, one file per published format; a file in this folder registers itself."""

from whyformer.datasets.dataset import (
    Contents,
    Dataset,
    DatasetRow,
    Format,
    Report,
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
    "DatasetRow",
    "Format",
    "Mask",
    "Report",
    "RowError",
    "Sample",
    "Spot",
    "dataset",
    "datasets",
    "open_dataset",
]

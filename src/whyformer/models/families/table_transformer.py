"""Table Transformer (Smock et al., 2022): DETR with pre-norm blocks, for tables in documents."""

from whyformer.models.families.detr import SIZES, detector, tiny_detector

table_transformer = detector(
    "table_transformer",
    title="Table Transformer",
    model_types=("table-transformer",),
    classes=("TableTransformerForObjectDetection",),
    tiny=tiny_detector("TableTransformerForObjectDetection", **SIZES),
)

"""Conditional DETR (Meng et al., 2021): content and position are apart in queries and keys."""

from whyformer.models.families.detr import SIZES, detector, tiny_detector

conditional_detr = detector(
    "conditional_detr",
    title="Conditional DETR",
    model_types=("conditional_detr",),
    classes=("ConditionalDetrForObjectDetection",),
    tiny=tiny_detector("ConditionalDetrForObjectDetection", **SIZES),
)

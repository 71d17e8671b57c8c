"""Deformable DETR (Zhu et al., 2021): attention to a few sampled points of several feature maps."""

from whyformer.models.families.detr import SIZES, detector, tiny_detector

deformable_detr = detector(
    "deformable_detr",
    title="Deformable DETR",
    model_types=("deformable_detr",),
    classes=("DeformableDetrForObjectDetection",),
    without_maps="it attends to a few sampled points of several feature maps",
    tiny=tiny_detector(
        "DeformableDetrForObjectDetection",
        "stage1",
        "stage2",
        **SIZES,
        num_feature_levels=2,
        encoder_n_points=2,
        decoder_n_points=2,
    ),
)

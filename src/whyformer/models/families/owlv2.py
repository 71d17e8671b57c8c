"""OWLv2 (Minderer et al., 2023): OWL-ViT with a score for how likely a patch shows an object."""

from whyformer.models.families.clip import two_towers
from whyformer.models.families.owlvit import SIZES
from whyformer.models.families.tiny import tiny_model

owlv2 = two_towers(
    "owlv2",
    title="OWLv2",
    model_types=("owlv2",),
    classes=("Owlv2ForObjectDetection",),
    inside="owlv2",
    text_blocks="text_model.encoder.layers",
    tiny=tiny_model("Owlv2ForObjectDetection", **SIZES),
)

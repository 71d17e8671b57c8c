"""Whisper's encoder with a classifier on the mean of its frames."""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import tiny_model
from whyformer.models.families.whisper import SIZES, SOUND

whisper_classification = declare(
    "whisper_classification",
    title="Whisper, audio classification",
    stream="audio",
    model_types=("whisper",),
    classes=("WhisperForAudioClassification",),
    sources=(SOUND,),
    blocks="encoder.layers",
    tiny=tiny_model(
        "WhisperForAudioClassification", **SIZES, num_labels=3, classifier_proj_size=16
    ),
)

"""Which class of a model type is tried: the one with the most useful head."""

from __future__ import annotations

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers
    from transformers.models.auto import configuration_auto, modeling_auto

# The first mapping that has the type counts.
HEADS = (
    *("VISUAL_QUESTION_ANSWERING", "IMAGE_CLASSIFICATION", "VIDEO_CLASSIFICATION"),
    *("AUDIO_CLASSIFICATION", "OBJECT_DETECTION", "SEQ_TO_SEQ_CAUSAL_LM", "CAUSAL_LM"),
    *("SEQUENCE_CLASSIFICATION", "MASKED_LM", "SPEECH_SEQ_2_SEQ", "CTC", "TOKEN_CLASSIFICATION"),
    *("QUESTION_ANSWERING", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "ZERO_SHOT_OBJECT_DETECTION"),
    *("ZERO_SHOT_IMAGE_CLASSIFICATION", "DOCUMENT_QUESTION_ANSWERING", "SEMANTIC_SEGMENTATION"),
    *("UNIVERSAL_SEGMENTATION", "INSTANCE_SEGMENTATION", "DEPTH_ESTIMATION"),
    *("TIME_SERIES_CLASSIFICATION", "TIME_SERIES_PREDICTION", "RETRIEVAL", "KEYPOINT_DETECTION"),
    *("KEYPOINT_MATCHING", "TEXT_RECOGNITION", "TABLE_RECOGNITION", "MASK_GENERATION"),
    *("TEXT_TO_SPECTROGRAM", "TEXT_TO_WAVEFORM", "RNNT", "TDT", "POSE_ESTIMATION"),
    *("IMAGE_TO_IMAGE", "IMAGE_MATTING", "PRETRAINING", "CAUSAL_IMAGE_MODELING", "BACKBONE"),
)
# Encoders that have a causal head too: classification is what they are used for.
ENCODER = "MASKED_LM"


def _mapping(name: str) -> dict[str, Any]:
    return getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES", {})


def model_types() -> tuple[str, ...]:
    """Every model type of the installed transformers that has a model class, by name."""
    names = {*modeling_auto.MODEL_MAPPING_NAMES}
    for head in HEADS:
        names |= {*_mapping(head)}
    return tuple(sorted(names & {*configuration_auto.CONFIG_MAPPING_NAMES}))


def class_names(model_type: str) -> tuple[str, ...]:
    """The names of the classes of a model type, the most useful head first."""
    order = [*HEADS]
    if model_type in _mapping(ENCODER) and model_type not in _mapping("SEQ_TO_SEQ_CAUSAL_LM"):
        order.remove("SEQUENCE_CLASSIFICATION")
        order.insert(0, "SEQUENCE_CLASSIFICATION")
        order.remove("CAUSAL_LM")
    found: list[str] = []
    for head in order:
        named = _mapping(head).get(model_type, ())
        found += [named] if isinstance(named, str) else named
    named = modeling_auto.MODEL_MAPPING_NAMES.get(model_type, ())
    found += [named] if isinstance(named, str) else named
    return tuple(dict.fromkeys(found))


def config_class(model_type: str) -> Any:
    """The config class of a model type."""
    return load(configuration_auto.CONFIG_MAPPING_NAMES[model_type])


def load(name: str) -> Any:
    """A class of transformers by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # DeBERTa's module uses torch.jit on import
        return getattr(transformers, name)

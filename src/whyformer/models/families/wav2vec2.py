"""wav2vec 2.0 (Baevski et al., 2020): convolutions, then an encoder with convolved positions.

The base models normalise over time, padding included; the large ones do not, and are pre-norm.
"""

from whyformer.models.families.speech import SPEECH, speech

wav2vec2 = speech(
    "wav2vec2",
    title="wav2vec 2.0, XLS-R, MMS",
    model_types=("wav2vec2",),
    class_name="Wav2Vec2ForSequenceClassification",
    more={
        "wav2vec2_base": {**SPEECH, "feat_extract_norm": "group"},
        "wav2vec2_large": {**SPEECH, "do_stable_layer_norm": True},
    },
)

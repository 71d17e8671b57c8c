"""Data2Vec (Baevski et al., 2022) for sound: wav2vec 2.0 with several convolved positions."""

from dataclasses import replace

from whyformer.models.families.speech import WAVEFORM, speech

data2vec_audio = speech(
    "data2vec_audio",
    title="Data2Vec (audio)",
    model_types=("data2vec-audio",),
    class_name="Data2VecAudioForSequenceClassification",
    # Each convolution of positions reads what the one before makes of padding.
    source=replace(WAVEFORM, padding=False),
)

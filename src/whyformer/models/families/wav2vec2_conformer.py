"""wav2vec 2.0 with Conformer blocks (Gulati et al., 2020): each also convolves over time."""

from dataclasses import replace

from whyformer.models.families.speech import WAVEFORM, speech

wav2vec2_conformer = speech(
    "wav2vec2_conformer",
    title="wav2vec 2.0 Conformer",
    model_types=("wav2vec2-conformer",),
    class_name="Wav2Vec2ConformerForSequenceClassification",
    # The convolutions of its blocks read it.
    source=replace(WAVEFORM, padding=False),
)

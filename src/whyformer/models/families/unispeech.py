"""UniSpeech (Wang et al., 2021): wav2vec 2.0 with another training."""

from whyformer.models.families.speech import speech

unispeech = speech(
    "unispeech",
    title="UniSpeech",
    model_types=("unispeech",),
    class_name="UniSpeechForSequenceClassification",
)

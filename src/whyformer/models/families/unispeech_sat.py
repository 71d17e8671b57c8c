"""UniSpeech-SAT (Chen et al., 2022): wav2vec 2.0, trained to tell speakers apart."""

from whyformer.models.families.speech import speech

unispeech_sat = speech(
    "unispeech_sat",
    title="UniSpeech-SAT",
    model_types=("unispeech-sat",),
    class_name="UniSpeechSatForSequenceClassification",
)

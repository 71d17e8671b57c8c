"""HuBERT (Hsu et al., 2021): wav2vec 2.0 with another training."""

from whyformer.models.families.speech import speech

hubert = speech(
    "hubert",
    title="HuBERT",
    model_types=("hubert",),
    class_name="HubertForSequenceClassification",
)

"""WavLM (Chen et al., 2022): relative positions, gated by the query, in the attention mask."""

from whyformer.models.families.speech import speech

wavlm = speech(
    "wavlm",
    title="WavLM",
    model_types=("wavlm",),
    class_name="WavLMForSequenceClassification",
)

"""wav2vec 2.0 BERT (Seamless Communication, 2023): Conformer blocks on frames of features."""

from whyformer.models.families.family import Source
from whyformer.models.families.speech import SPEECH, speech

_SIZES = {
    **SPEECH,
    "feature_projection_input_dim": 6,
    "conv_depthwise_kernel_size": 3,
    "max_source_positions": 40,
}

wav2vec2_bert = speech(
    "wav2vec2_bert",
    title="wav2vec 2.0 BERT",
    model_types=("wav2vec2-bert",),
    class_name="Wav2Vec2BertForSequenceClassification",
    source=Source(
        "audio",
        "input_features",
        kind="frames",
        mask="attention_mask",
        widths={"input_features": "feature_projection_input_dim"},
    ),
    sizes=_SIZES,
)

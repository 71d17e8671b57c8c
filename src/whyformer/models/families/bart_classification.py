"""BART as a classifier of texts: the encoder and the decoder both read the text."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE
from whyformer.models.families.family import Stack, declare
from whyformer.models.families.tiny import tiny_model

bart_classification = declare(
    "bart_classification",
    title="BART, mBART and their kin, text classification",
    stream="source",
    classes=(
        "BartForSequenceClassification",
        "MBartForSequenceClassification",
        "MvpForSequenceClassification",
        "PLBartForSequenceClassification",
    ),
    sources=(TEXT_SOURCE,),
    # The decoder's tokens are those of the text, one place further on.
    stacks=(
        Stack(("source",), BART["encoder"], read=False),
        Stack(("generated",), BART["decoder"], like="source"),
    ),
    attention={
        BART["encoder"]: ("source", "source"),
        BART["within"]: ("generated", "generated"),
        BART["between"]: ("generated", "source"),
    },
    tiny=tiny_model("BartForSequenceClassification", **SIZES, num_labels=3),
)

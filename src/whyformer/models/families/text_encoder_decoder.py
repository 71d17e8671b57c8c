"""EncoderDecoderModel: any text encoder with any text decoder."""

from whyformer.models.families.composed import BERT, COMPOSED, tiny_composed
from whyformer.models.families.encoder_decoder import encoder_decoder
from whyformer.models.families.family import Source

text_encoder_decoder = encoder_decoder(
    "text_encoder_decoder",
    title="EncoderDecoderModel (BERT2BERT, ...)",
    model_types=("encoder-decoder",),
    source=Source("source", "input_ids", mask="attention_mask", part="encoder"),
    **COMPOSED,
    unread=("encoder.pooler.",),
    tiny=tiny_composed("EncoderDecoder", ("BertConfig", BERT), ("BertConfig", BERT)),
)

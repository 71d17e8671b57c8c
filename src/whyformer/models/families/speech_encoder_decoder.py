"""SpeechEncoderDecoderModel: any speech encoder on a waveform with any text decoder."""

from dataclasses import replace

from whyformer.models.families.composed import BERT, COMPOSED, tiny_composed
from whyformer.models.families.encoder_decoder import encoder_decoder
from whyformer.models.families.speech import SPEECH, WAVEFORM

speech_encoder_decoder = encoder_decoder(
    "speech_encoder_decoder",
    title="SpeechEncoderDecoderModel",
    model_types=("speech-encoder-decoder",),
    source=replace(WAVEFORM, part="encoder"),
    **COMPOSED,
    tiny=tiny_composed("SpeechEncoderDecoder", ("Wav2Vec2Config", SPEECH), ("BertConfig", BERT)),
)

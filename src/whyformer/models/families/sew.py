"""SEW (Wu et al., 2022): wav2vec 2.0 whose encoder reads two frames as one.

Its frames are put apart again after the encoder.
"""

from dataclasses import replace

from whyformer.models.families.speech import SPEECH, WAVEFORM, frames, speech

sew = speech(
    "sew",
    title="SEW",
    model_types=("sew",),
    class_name="SEWForSequenceClassification",
    source=replace(
        WAVEFORM,
        frames=lambda config, samples: frames(config, samples) // config.squeeze_factor,
        padding=False,  # frames are put apart without a mask
    ),
    sizes={**SPEECH, "squeeze_factor": 2},
)

"""InstructBLIP with T5 (Dai et al., 2023): BLIP-2 whose queries also read the instruction."""

from whyformer.models.families.blip_2_t5 import queries_before_t5
from whyformer.models.families.instructblip import INSTRUCTED_QUERIES

instructblip_t5 = queries_before_t5(
    "instructblip_t5",
    "InstructBlipForConditionalGeneration",
    INSTRUCTED_QUERIES,
    title="InstructBLIP with T5",
    model_types=("instructblip",),
)

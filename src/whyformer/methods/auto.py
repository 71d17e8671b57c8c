"""The default method: it chooses by the kind of input, on the evidence in docs/results.md."""

from __future__ import annotations

from dataclasses import replace

from whyformer.engine.result import Choice, MethodResult
from whyformer.engine.run import Run
from whyformer.methods.blend import blend
from whyformer.methods.libragrad import libragrad
from whyformer.methods.method import method

IMAGES = Choice("blend", {}, "images: level with libragrad on perturbation, and it segments better")
TEXT = Choice("libragrad", {}, "no image: its scores sum to the output and keep their sign")
PROMPT = Choice("libragrad", {}, "a language model: its scores sum to the output, with their sign")


@method(
    "auto",
    title="The default: blend for images, libragrad for everything else",
    paper="docs/results.md, `whyformer reproduce methods`",
    needs=("gradient",),
    signed=True,
    sums="conservation",
    rules="detach",
    keeps=("nodes",),
    alias=True,
)
def auto(run: Run) -> MethodResult:
    """The scores of the method that the evidence chose for this kind of input.

    The result names that method and says why it was chosen.
    """
    if any(one.stream == "image" for one in run.batch):
        return replace(blend(run), choice=IMAGES)
    return replace(libragrad(run), choice=TEXT if run.batch.soft is None else PROMPT)

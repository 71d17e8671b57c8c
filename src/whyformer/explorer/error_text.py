"""Errors in the page's terms: a reader changes fields, not Python arguments."""

from __future__ import annotations

from whyformer.errors import WhyformerError, join_sentences

# What to do if an error is about this argument of the Python API; "" if nothing on the page helps.
# For any other argument the remedy for Python is shown.
ADVICE = {
    "inputs": "Change the text or the image",
    "truncation": "Shorten the text",
    "target": "Change the field Why, or leave it empty for the prediction",
    "query": "Enter another number in the field Object, or leave it empty",
    "max_new_tokens": "Enter a smaller number in the field Longest answer, or shorten the prompt",
    "mask_token": "Put the mask token into the text",
    "head": "Choose another model",
    "keep": "Choose at least two methods",
    "model": "Choose another model",
    "processor": "Choose another model",
    "blocks": "Choose another model",
    "tokens": "Choose another model",
    "batch_first": "Choose another model",
    "deciding": "Choose another model or target",
    "rerun": "",
    "metric": "",
    "metrics": "",
}


def error_text(error: WhyformerError) -> str:
    """Return what is wrong and what to do about it, in one line."""
    advice = ADVICE.get(error.argument or "", error.remedy)
    return " ".join(join_sentences(error.message, advice).split())

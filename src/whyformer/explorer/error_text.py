"""Errors in the page's terms: a reader changes fields, not Python arguments."""

from __future__ import annotations

from whyformer.errors import WhyformerError, join_sentences

# What to do if an error is about this argument of the Python API; "" if nothing on the page helps.
# The remedy of any other error is shown as it is.
ADVICE = {
    "truncation": "Shorten the text",
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

"""What the package refuses, in the words of the page: a reader has fields, no arguments."""

from __future__ import annotations

import re

WORDS = (
    (re.compile(r"; use metrics that do not run the model again"), ""),
    (re.compile(r"\bpass truncation=True[^;,.]*"), "shorten the text"),
    (re.compile(r"\btarget=wf\.query\(index, label\)"), "a label as the target"),
    (re.compile(r",? or (pass )?another (model|processor)=(?=[\s,;.)]|$)"), ", or another model"),
    (re.compile(r"\b(?:another )?(model|target|method)=(?=[\s,;.)]|$)"), r"another \1"),
)


def error_text(error: BaseException) -> str:
    """The error as one sentence on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    for pattern, words in WORDS:
        text = pattern.sub(words, text)
    return text

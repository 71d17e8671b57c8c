"""Words that the tokenizer does not know are shown as they were written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

import whyformer as wf


def test_unknown_words_are_shown_as_written() -> None:
    found = wf.explain(["a gripping ☃ film", "plain"])
    assert found.tokens is not None
    assert found.tokens[0][3] == "☃"
    assert dict(found[0].words())["☃"] == found.scores[0, 3]
    (note,) = [n for n in found.provenance["notes"] if "[UNK]" in n]
    assert note.endswith("the model reads each as [UNK]: ☃")


def test_the_second_text_of_a_pair_is_looked_up_too(
    build: Callable[..., nn.Module], wordpiece: Any
) -> None:
    model = build("BertForSequenceClassification", vocab_size=len(wordpiece))
    found = wf.explain(("a film", "a ☂ film"), model, tokenizer=wordpiece)
    assert found.tokens is not None
    assert "☂" in found.tokens[0]
    assert "[UNK]" not in found.tokens[0]


def test_known_words_have_no_note() -> None:
    assert not [n for n in wf.explain("a film").provenance["notes"] if "[UNK]" in n]

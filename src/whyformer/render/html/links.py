"""The data with which a page links its streams, as JSON that is safe inside a script element."""

from __future__ import annotations

import json
from typing import Any

from whyformer.render.html.packing import FINE_LEVELS, fine_block
from whyformer.render.html.palette import script_palette
from whyformer.render.panels import Panel, TextPanel
from whyformer.render.sentences import split_sentences
from whyformer.render.view_model import SampleContent

# Inside a script element nothing may look like markup or end a line of JavaScript. A surrogate,
# which a broken tokenizer may leave, cannot be written to a file.
_UNSAFE = {
    code: f"\\u{code:04x}" for code in (*map(ord, "<>&\u2028\u2029"), *range(0xD800, 0xE000))
}


def link_payload(content: SampleContent) -> dict[str, Any] | None:
    """Return the panels and the matrices between them, or None if there are none."""
    if not content.matrices:
        return None
    names = [panel.name for panel in content.panels]
    return {
        **script_palette(),
        "levels": FINE_LEVELS,
        "panels": [_panel(panel) for panel in content.panels],
        "maps": [
            {
                "asking": names.index(m.asking),
                "answering": names.index(m.answering),
                **fine_block(m.values),
            }
            for m in content.matrices
        ],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    known = {"name": panel.name, "unit": panel.unit, "silent": panel.silent}
    if isinstance(panel, TextPanel):
        return {**known, **_answer(panel)}
    strongest = int(panel.patches.nan_to_num().abs().argmax())
    return {**known, "grid": list(panel.patches.shape), "start": strongest}


def _answer(panel: TextPanel) -> dict[str, Any]:
    """What the words of an answer ask for: a row each, and how sure the model was."""
    if not panel.answer:
        return {}
    chances = [None if w.probability is None else round(w.probability, 4) for w in panel.answer]
    return {
        "rows": [word.row for word in panel.answer],
        "inParts": panel.in_parts,
        "answerSentences": split_sentences([word.text for word in panel.answer]),
        **({"probabilities": chances} if any(c is not None for c in chances) else {}),
    }


def script_json(data: Any) -> str:
    """Return JSON that is safe inside a script element, whatever text it contains."""
    return escape_json(json.dumps(data, separators=(",", ":"), allow_nan=False))


def escape_json(text: str) -> str:
    """Return JSON text, made safe for a script element."""
    return text.translate(_UNSAFE)

"""Sanitizers as sites with notebooks have them, so that tests can see what is left of an output.

GitHub does not publish the rules for outputs of notebooks. `github` assumes those of its
html-pipeline for Markdown, the strictest that are known: only these elements stay (others lose
their tags, `script` and `style` with what is in them), and only these attributes: no `style`,
`class`, `id`, `hidden` or `aria-...`, no `data-...` and no handler. Images may have a data:
address, as pictures of notebooks have there. Reports of users (jupyter/nbviewer issue 450, pandas
issue 33076) fit to that. `keep_inline_styles` is the milder variant, which removes style sheets,
scripts and classes and leaves inline styles.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import html5lib

_ELEMENTS = (
    "h1|h2|h3|h4|h5|h6|br|b|i|strong|em|a|pre|code|img|tt|div|ins|del|sup|sub|p|ol|ul|table|thead"
    "|tbody|tfoot|blockquote|dl|dt|dd|kbd|q|samp|var|hr|ruby|rt|rp|li|tr|td|th|s|strike|summary"
    "|details|caption|figure|figcaption|abbr|bdo|cite|dfn|mark|small|span|time|wbr"
)
_ATTRIBUTES = (
    "align|alt|border|cellpadding|cellspacing|colspan|dir|headers|height|label|lang|name|nowrap"
    "|open|rowspan|scope|span|start|summary|tabindex|title|type|valign|value|width|src"
)
ELEMENTS = frozenset(_ELEMENTS.split("|"))
ATTRIBUTES = frozenset(_ATTRIBUTES.split("|"))
DROPPED = {"script", "style", "svg", "textarea", "template"}


def github(html: str) -> ElementTree.Element:
    """Return the tree that is left of a notebook's output."""
    return _clean(html5lib.parse(html, namespaceHTMLElements=False).find("body"), ATTRIBUTES)


def keep_inline_styles(html: str) -> ElementTree.Element:
    """Return the tree that is left where inline styles are allowed."""
    body = html5lib.parse(html, namespaceHTMLElements=False).find("body")
    return _clean(body, ATTRIBUTES | {"style"})


def visible_text(tree: ElementTree.Element) -> str:
    """Return the text that a reader sees: what an inline style hides is left out."""
    if "display:none" in tree.get("style", "").replace(" ", ""):
        return ""
    inside = "".join(visible_text(child) + (child.tail or "") for child in tree)
    return (tree.text or "") + inside


def _clean(element: ElementTree.Element, attributes: frozenset[str]) -> ElementTree.Element:
    """A copy with allowed elements and attributes; a foreign element becomes a plain span."""
    kept = ElementTree.Element(element.tag if element.tag in ELEMENTS else "span")
    kept.attrib = {k: v for k, v in element.attrib.items() if k in attributes}
    kept.text = element.text
    for child in element:
        if child.tag in DROPPED or not isinstance(child.tag, str):
            part = ElementTree.Element("span")
        else:
            part = _clean(child, attributes)
        part.tail = child.tail
        kept.append(part)
    return kept

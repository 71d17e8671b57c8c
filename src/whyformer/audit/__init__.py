"""Audits: how much a model's decisions depend on names, on terms, and on function words.

The function `audit` is here and its work in the modules beside it, which are imported on first
use: `import whyformer` stays cheap, and `whyformer.audit` is the function.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyformer.audit.findings import Audit as Audit
    from whyformer.audit.findings import AuditColumn as AuditColumn
    from whyformer.audit.findings import AuditTable as AuditTable
    from whyformer.audit.name_audit import DEFAULT_NAMES as DEFAULT_NAMES
    from whyformer.audit.name_audit import audit_names as audit_names
    from whyformer.audit.name_audit import run_name_audit as run_name_audit
    from whyformer.audit.term_audit import audit_terms as audit_terms
    from whyformer.audit.term_audit import run_term_audit as run_term_audit
    from whyformer.audit.word_lists import name_lists as name_lists

_HOMES = {
    "Audit": "findings",
    "AuditColumn": "findings",
    "AuditTable": "findings",
    "DEFAULT_NAMES": "name_audit",
    "audit_names": "name_audit",
    "run_name_audit": "name_audit",
    "audit_terms": "term_audit",
    "run_term_audit": "term_audit",
    "name_lists": "word_lists",
}
__all__ = [*sorted(_HOMES), "audit"]


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name in _HOMES:
        return getattr(import_module(f"whyformer.audit.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'whyformer.audit' has no attribute {name!r}")


def audit(
    what: str,
    model: Any = None,
    data: Any = None,
    *,
    out: Path | str | None = None,
    **settings: Any,
) -> Audit:
    """Measure how much a model's decisions depend on names or on terms.

    Args:
        what: "names" puts names into sentences and compares groups of names. "terms" ranks the
            words of a dataset, and measures the terms that you list.
        model: A text classifier: a module, a folder, a name; the bundled one if None.
        data: For "terms": a dataset such as "sst2:PATH" or "csv:my.csv", or a list of texts.
        out: A folder for audit.json, rows.parquet and report.html. By default nothing is written.
        **settings: For both: `methods`, `target`, `processor`, `truncation`, `batch`, `draws` and
            `seed`. For "names": `names`, `templates` and `per_group`. For "terms": `terms`,
            `split`, `limit`, `on_error`, `function_words` and `min_count`. They are described at
            `whyformer.audit.name_audit.run_name_audit` and
            `whyformer.audit.term_audit.run_term_audit`.

    Returns:
        The audit: sentences (`headline`), tables, charts, and one row per explanation.

    Raises:
        OptionError: `what` or a setting is unknown, or `data` is missing.
        InputError: A list or the dataset cannot be read, or the model has no tokenizer.
        TargetError: The model has no classes, or not this one.

    Example:
        >>> import whyformer as wf
        >>> texts = ["a dull film", "a good film"]
        >>> found = wf.audit("terms", data=texts, terms=["dull"], draws=10)
        >>> [row["top word"] for row in found.rows]
        ['dull', 'good']
    """
    from whyformer.audit.run import run_audit

    return run_audit(what, model, data, out, settings)

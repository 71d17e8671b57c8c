"""Run the audit that the user names, with settings that it has."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from whyformer.audit.findings import Audit
from whyformer.audit.name_audit import audit_names
from whyformer.audit.term_audit import audit_terms
from whyformer.errors import OptionError

KINDS = ("names", "terms")


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
        **settings: For both: `methods`, `target`, `processor`, `truncation`, `batch`, `draws`,
            `seed` and `engine`. For "names": `names`, `templates` and `per_group`. For "terms":
            `terms`, `split`, `limit`, `on_error`, `function_words` and `min_count`. They are
            described at `whyformer.audit.name_audit.run_name_audit` and
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
    if what not in KINDS:
        raise OptionError(
            f"there is no audit of {what!r}",
            argument="what",
            remedy="Pass 'names' or 'terms'",
        )
    if (data is None) == (what == "terms"):
        wrong = "needs texts" if data is None else "takes no data: it has its own sentences"
        raise OptionError(
            f"an audit of {what} {wrong}",
            argument="data",
            remedy="Pass data=, a list of texts or a dataset such as 'csv:reviews.csv'"
            if data is None
            else "Leave out data=, or pass what='terms'",
        )
    run = audit_names if what == "names" else audit_terms
    known = [name for name in inspect.signature(run).parameters if name not in ("model", "data")]
    for name in settings:
        if name not in known:
            raise OptionError(
                f"an audit of {what} has no setting {name!r}",
                argument=name,
                remedy=f"It has {', '.join(known)}",
            )
    if what == "names":
        found = audit_names(model, **settings)
    else:
        found = audit_terms(data, model, **settings)
    if out is not None:
        found.save(Path(out))
    return found

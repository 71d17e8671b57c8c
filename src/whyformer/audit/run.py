"""Run the audit that the user names, with settings that it has."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whyformer.audit.findings import Audit
from whyformer.audit.name_audit import audit_names
from whyformer.audit.term_audit import audit_terms
from whyformer.errors import OptionError
from whyformer.inputs.containers import plain_inputs

KINDS = ("names", "terms")


def run_audit(
    what: str, model: Any, data: Any, out: Path | str | None, settings: Mapping[str, Any]
) -> Audit:
    """Return the audit, which is also written to `out`.

    Raises:
        OptionError: `what` or a setting is unknown, or the data is missing or has no use.
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
        found = audit_terms(plain_inputs(data), model, **settings)
    if out is not None:
        found.save(Path(out))
    return found

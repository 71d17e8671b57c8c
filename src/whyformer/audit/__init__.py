"""Audits: how much a model's decisions depend on names, on terms, and on function words."""

from whyformer.audit.findings import Audit, AuditColumn, AuditTable
from whyformer.audit.name_audit import DEFAULT_NAMES, audit_names, run_name_audit
from whyformer.audit.run import audit
from whyformer.audit.term_audit import audit_terms, run_term_audit
from whyformer.audit.word_lists import name_lists

__all__ = [
    "DEFAULT_NAMES",
    "Audit",
    "AuditColumn",
    "AuditTable",
    "audit",
    "audit_names",
    "audit_terms",
    "name_lists",
    "run_name_audit",
    "run_term_audit",
]

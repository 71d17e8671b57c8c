"""Audits: how much of a model's decisions rests on names, on given terms, on empty words."""

from whyformer.audit.findings import Audit, AuditColumn, AuditTable
from whyformer.audit.name_audit import DEFAULT_NAMES, audit_names
from whyformer.audit.term_audit import audit_terms
from whyformer.audit.word_lists import name_lists

__all__ = [
    "DEFAULT_NAMES",
    "Audit",
    "AuditColumn",
    "AuditTable",
    "audit_names",
    "audit_terms",
    "name_lists",
]

"""Locks that a child process can use: after a fork, the threads that held them do not exist."""

from __future__ import annotations

import os
from typing import Any, TypeVar

Lock = TypeVar("Lock", bound=Any)

_locks: list[Any] = []


def fork_safe(lock: Lock) -> Lock:
    """Return the lock, which is free again in every child that is forked later."""
    _locks.append(lock)
    return lock


def _renew_locks() -> None:
    for lock in _locks:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)

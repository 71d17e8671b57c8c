"""How relevance passes through each operation: torch only, tables of (operation, rule).

A rule takes `(ledger, function, args, kwargs)` and returns what the function would have returned,
with the same value and another backward.
"""

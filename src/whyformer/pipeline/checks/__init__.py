"""What decides how far an attribution can be trusted, one file per check.

A check returns `Reason`s and never warns; `pipeline.trust` warns once for all of them.
"""

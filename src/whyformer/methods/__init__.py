"""Explanation methods, one file each, named like the method; they register by existing."""

from whyformer.methods.method import Method, method, methods

__all__ = ["Method", "method", "methods"]

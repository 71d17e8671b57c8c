"""Explanation methods, one file each, named like the method. Each file registers its method."""

from whyformer.methods.method import Method, method, methods

__all__ = ["Method", "method", "methods"]

"""Torch operations: their names, composite ones, tags on tensors, precision, safe division."""

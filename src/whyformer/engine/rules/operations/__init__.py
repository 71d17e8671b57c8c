"""Torch operations: names, arguments, composite functions, tags on tensors and precision."""

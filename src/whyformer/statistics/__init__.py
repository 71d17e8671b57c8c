"""Rank correlations and bootstrap intervals, on plain tensors."""

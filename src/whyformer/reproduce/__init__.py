"""Reproduce the experiments of the three papers with the data and models that are present."""

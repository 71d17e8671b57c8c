"""The experiments of the three papers, end to end, with what is present."""

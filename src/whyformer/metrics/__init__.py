"""Measures of how faithful an attribution is, one file each; they register by existing."""

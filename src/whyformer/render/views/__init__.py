"""The views, one file each: a file in this folder registers its view when it is imported."""

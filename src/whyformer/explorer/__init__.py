"""The explorer: a web page to try models and methods, served by the standard library."""

"""The explorer: a web page to try models and methods, as an ASGI application."""

"""Detach rules: the forward value stays, some factors are detached, relevance is x * df/dx."""

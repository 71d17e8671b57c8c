"""The passes over a model: each takes a `Run` and returns a frozen result."""

"""Loading models and processors, model families as data, bundled models."""

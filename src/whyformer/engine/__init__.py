"""The forward and backward passes of the package; they leave the model unchanged."""

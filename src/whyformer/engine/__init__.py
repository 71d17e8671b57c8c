"""The only forward and backward passes in the package; they leave the model as it was."""

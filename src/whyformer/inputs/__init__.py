"""The user's inputs, read and checked, as a batch of what the model's forward takes."""

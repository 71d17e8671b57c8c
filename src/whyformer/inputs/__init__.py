"""Between what the user passes and what the model takes: models, inputs and targets."""

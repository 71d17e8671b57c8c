"""What is explained: target specs, output heads, selection, generated text."""

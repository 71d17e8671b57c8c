"""What methods share that remove parts of the input and run the model again."""

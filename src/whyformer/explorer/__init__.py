"""The web page: a model, a text or an image, some methods, and what they say side by side."""

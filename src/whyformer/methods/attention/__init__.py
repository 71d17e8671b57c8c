"""What attention methods share: mixing per layer, and relevancy between streams."""

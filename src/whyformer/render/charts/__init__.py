"""Charts: lines with bands and dots with intervals as SVG, and lines as a picture file."""

"""Everything that shows attributions: web pages, pictures, terminal text, charts and JSON."""

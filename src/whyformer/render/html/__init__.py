"""HTML: pages and fragments of pages."""

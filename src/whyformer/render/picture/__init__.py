"""Pictures: PNG, SVG and PDF, drawn by matplotlib."""

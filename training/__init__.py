"""The scripts that made the bundled models: see README.md in this folder."""

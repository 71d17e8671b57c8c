"""Text for a terminal, in colour where the terminal has it."""

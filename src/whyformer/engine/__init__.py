"""The only forward and backward passes in the package, and what they leave behind: nothing."""

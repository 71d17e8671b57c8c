"""Rules whose backward pass carries relevance instead of the gradient."""

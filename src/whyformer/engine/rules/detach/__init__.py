"""Rules that keep the forward value and detach some factors: relevance is gradient x input."""

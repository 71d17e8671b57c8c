"""Relevance rules (Chefer et al., CVPR 2021): a backward pass that carries relevance."""

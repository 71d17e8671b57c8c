"""How inputs become batches: token budget, planning by length, long series of inputs."""

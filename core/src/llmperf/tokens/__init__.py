"""Token batches and initial weights, the same for every framework; NumPy only."""

"""Token batches and initial weights, equal for every framework; needs NumPy only."""

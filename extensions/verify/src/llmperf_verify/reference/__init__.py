"""The forward pass of a model at its initial weights, from its facts alone: NumPy, one block of weights in memory."""

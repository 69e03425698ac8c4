"""A vendor and a framework for tests: no tensors, real processes, faults on demand."""

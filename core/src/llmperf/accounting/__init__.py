"""Parameters, FLOPs, MFU conventions, memory of model states."""

"""The arithmetic: layout, batch, parameters, FLOPs, MFU conventions, memory of model states."""

"""Fused operations of the torch frameworks: `tuning.fused_ops`."""

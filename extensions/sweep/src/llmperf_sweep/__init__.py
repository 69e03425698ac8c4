"""llmperf extension `sweep`: many runs from one file, scaling over ranks, and settings found by measuring."""

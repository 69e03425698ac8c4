"""llmperf extension: runs of external training scripts, measured by the lines that they print."""

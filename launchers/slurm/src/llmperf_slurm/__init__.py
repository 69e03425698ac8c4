"""The launcher `slurm` of llmperf: runs in Slurm jobs."""

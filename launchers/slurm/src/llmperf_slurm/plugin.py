"""Hook implementations of the launcher `slurm`."""

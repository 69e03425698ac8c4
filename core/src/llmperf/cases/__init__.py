"""Models, cases, overlays and `--set`: from files to a RunSpec."""

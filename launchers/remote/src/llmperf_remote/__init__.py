"""Runs of llmperf on other nodes, which a launcher reaches by commands."""

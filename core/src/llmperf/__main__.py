"""`python -m llmperf`."""

from llmperf.cli.supervisor import supervised

supervised()

"""`python -m llmperf`."""

from llmperf.cli.program import program

program()

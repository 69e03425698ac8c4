"""`python -m llmperf`."""

from llmperf.cli.main import main

main()

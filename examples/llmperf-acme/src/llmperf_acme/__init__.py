"""llmperf vendor plugin `acme`."""

"""What the kit runs in processes of its own: each writes one document of `llmperf_testing.observations`."""

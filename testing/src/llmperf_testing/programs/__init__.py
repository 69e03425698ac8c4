"""Programs that the kit runs in separate processes: each writes one document of `llmperf_testing.observations`."""

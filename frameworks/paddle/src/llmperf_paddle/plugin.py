"""llmperf framework plugin `paddle`."""

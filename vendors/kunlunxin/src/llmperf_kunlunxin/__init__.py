"""Kunlunxin XPUs under llmperf."""

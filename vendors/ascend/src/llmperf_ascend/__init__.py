"""Huawei Ascend NPUs under llmperf."""

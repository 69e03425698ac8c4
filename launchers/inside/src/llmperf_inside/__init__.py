"""The launcher `inside` of llmperf: runs whose processes another engine has started."""

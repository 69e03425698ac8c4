"""PaddlePaddle under llmperf: LLaMA in `paddle.nn`, trained by `fleet` in every layout it has."""

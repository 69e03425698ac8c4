"""llmperf extension `watch`: the speed of any training program, from its own output."""

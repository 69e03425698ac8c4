"""llmperf framework plugin: PaddlePaddle with tensor, pipeline and sharded data parallel."""

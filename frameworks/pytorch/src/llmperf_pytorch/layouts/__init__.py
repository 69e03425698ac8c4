"""How ranks share a model beyond replicas: sharded, by tensor parallelism, in pipeline stages."""

"""llmperf extension `fuzz`: random models and layouts by which a framework's ranks are compared with one rank."""

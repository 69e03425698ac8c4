"""Import of published Markdown tables: what a document states, as types of `llmperf_published.types`."""

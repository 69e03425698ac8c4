"""For maintainers: the published JSON Schemas, rendered from the dataclasses of `llmperf.types`.

`python -m llmperf.validation.rendering` writes them; with `--check` it only says whether they are in step.
"""

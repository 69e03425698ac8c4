"""Write the schemas, or with `--check` say which are out of step (exit 1)."""

from __future__ import annotations

import sys

import llmperf_schemas

from llmperf.files import json_files
from llmperf.validation.rendering.documents import render, target


def main(arguments: list[str]) -> int:
    """Render all schemas."""
    stale = 0
    for name in llmperf_schemas.names():
        rendered, path = json_files.encode_pretty(render(name)), target(name)
        if path.exists() and path.read_bytes() == rendered:
            continue
        stale += 1
        print(path.name)
        if "--check" not in arguments:
            json_files.write_bytes(path, rendered)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`PROGRAM ARGUMENTS OUT`: `seen()` of a program, given a JSON object of arguments, is saved as a JSON document."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from llmperf.files import json_files

if __name__ == "__main__":
    program, arguments, out = sys.argv[1:]
    module = import_module(f"llmperf_testing.programs.{program}")
    json_files.save(Path(out), module.seen(**json.loads(arguments)))
    if program in ("device", "rank"):  # a runtime may wait for others when it ends
        from llmperf.measuring.processes import leave

        leave(0)

"""The process of one trace: `python -m llmperf.running.trace_rank --run-dir DIR --rank N` writes `trace.json` there."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.plugins.discovery import find
from llmperf.plugins.loading import Plugins
from llmperf.runfolder import filenames
from llmperf.types.plan import Plan
from llmperf.types.tracing import StepTrace

HOOK = "llmperf_trace_step"


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace one rank; a failure is the last line on standard error, with exit code 1."""
    parser = argparse.ArgumentParser(prog="llmperf.running.trace_rank")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--rank", type=int, required=True)
    options = parser.parse_args(arguments)
    plan = json_files.load(options.run_dir / filenames.PLAN, Plan)
    try:
        plugins = Plugins([find("framework", plan.spec.tuning.framework)])
        if not plugins.answers(HOOK):
            raise UserError(f"{plan.spec.tuning.framework} cannot trace a step")
        trace = plugins.answer(HOOK, StepTrace, plan=plan, rank=options.rank)
    except LlmperfError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    json_files.write_bytes(options.run_dir / filenames.TRACE, json_files.encode(trace))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a library's threads and destructors could keep the process

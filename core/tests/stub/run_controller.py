"""A controller process for tests: `python run_controller.py PLAN.json RUN_DIR`; 0 complete, 1 failed, 130 aborted."""

import sys
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.plugins.loading import load_for
from llmperf.running.launched import run_plan, save_result
from llmperf.types import Plan

if __name__ == "__main__":
    plan = json_files.load(Path(sys.argv[1]), Plan)
    try:
        result = run_plan(plan, Path(sys.argv[2]), load_for(plan.vendor, plan.spec.tuning.framework), save_result)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    print(result.status)
    sys.exit({"complete": 0, "failed": 1, "aborted": 130}[result.status])

"""The same fixtures as the plain PyTorch plugin's tests: `program` and `train`."""

import importlib.util
from pathlib import Path

SHARED = Path(__file__).parents[2] / "pytorch" / "tests" / "conftest.py"

_specification = importlib.util.spec_from_file_location("llmperf_pytorch_test_fixtures", SHARED)
_shared = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(_shared)
program, train = _shared.program, _shared.train

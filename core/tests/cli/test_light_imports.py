"""What commands leave unimported, since each module costs those who do not need it."""

import subprocess
import sys
from pathlib import Path

import llmperf_schemas
import pytest
from llmperf.files import json_files

PUBLISHED = Path(__file__).parents[3] / "extensions/published/src/llmperf_published/data"
HEAVY = ("numpy", "torch", "deepspeed", "paddle", "transformers", "jsonschema", "plotext", "tabulate", "asyncio")
FOR_IMPORTED = ("llmperf_published.reading", "llmperf_published.types.document")
FOR_OTHER_DOCUMENTS = (
    *("packaging", "wcwidth", "importlib.metadata", "subprocess", "shutil", "difflib"),
    *("llmperf.types.records", "llmperf.types.sheet", "llmperf.types.plan", "llmperf.reporting.cells"),
    *("llmperf_verify.levels", "llmperf_verify.ssh_signatures", "llmperf.plugins.mending", "llmperf_nvidia.probe"),
)
FOR_WRITERS = ("tarfile", "xml", "llmperf.results.run_result",
               "llmperf.launching.agent", "llmperf.planning", "llmperf.measuring")  # fmt: skip


def imported(*words):
    """Every module that a command line leaves in `sys.modules`, and its exit code."""
    code = (
        "import sys; from llmperf.cli.main import call; done = call(sys.argv[1:]);print('MODULES', done, *sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)
    line = next(line for line in told.stdout.splitlines() if line.startswith("MODULES"))
    _, done, *modules = line.split()
    return int(done), modules


def below(modules, packages):
    return [one for one in modules if any(one == name or one.startswith(f"{name}.") for name in packages)]


@pytest.fixture
def result(tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(json_files.encode(llmperf_schemas.example("result")))
    return str(path)


def test_validating_a_result_imports_only_what_judges_results(result):
    done, modules = imported("validate", result)
    assert done == 0
    assert below(modules, (*HEAVY, *FOR_IMPORTED, *FOR_WRITERS, *FOR_OTHER_DOCUMENTS)) == []


@pytest.mark.slow
def test_validating_imported_documents_imports_no_heavy_module():
    done, modules = imported("validate", str(PUBLISHED))
    assert done in (0, 1)
    assert below(modules, (*HEAVY, *FOR_WRITERS)) == []


def test_help_imports_no_plugin():
    done, modules = imported("--help")
    assert done == 0
    assert below(modules, (*HEAVY, *FOR_IMPORTED, *FOR_WRITERS, "msgspec", "pluggy")) == []

"""What `llmperf validate FILE` and `llmperf plugins` leave unimported, so that they start quickly."""

from __future__ import annotations

import json
import subprocess
import sys

LEFT_OUT = (
    *("packaging", "wcwidth", "importlib.metadata", "subprocess", "shutil", "difflib", "torch", "numpy"),
    *("llmperf.types.records", "llmperf.types.sheet", "llmperf.types.plan", "llmperf.reporting.cells"),
    *("llmperf_verify.levels", "llmperf_verify.ssh_signatures", "llmperf.plugins.mending", "llmperf_nvidia.probe"),
)
LEFT_OUT_BY_PLUGINS = (
    *(*LEFT_OUT, "msgspec", "tomllib", "tomli", "llmperf.types.result", "llmperf.validation", "llmperf_vendorkit"),
    *("llmperf.accounting", "llmperf.cases", "llmperf.planning", "llmperf.running", "pathlib"),
)
PROGRAM = "import sys; from llmperf.cli.main import call; call(sys.argv[2:]); print(*(set(sys.argv[1].split(',')) & set(sys.modules)))"  # noqa: E501


def imported(names, *words):
    """Those of some modules that a command has imported."""
    argv = [sys.executable, "-c", PROGRAM, ",".join(names), *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr
    return done.stdout.splitlines()[-1].split()


def test_a_result_alone_is_validated_without_what_only_other_documents_need(tmp_path, example):
    path = tmp_path / "row.json"
    path.write_text(json.dumps(example))
    assert imported(LEFT_OUT, "validate", str(path)) == []


def test_plugins_are_listed_without_what_only_their_use_needs():
    assert imported(LEFT_OUT_BY_PLUGINS, "plugins") == []

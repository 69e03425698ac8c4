"""What `llmperf validate FILE` leaves unimported, so that it starts quickly."""

import json
import subprocess
import sys

LEFT_OUT = {
    *("packaging", "wcwidth", "importlib.metadata", "subprocess", "shutil", "difflib", "torch", "numpy"),
    *("llmperf.types.records", "llmperf.types.sheet", "llmperf.types.plan", "llmperf.reporting.cells"),
    *("llmperf_verify.levels", "llmperf_verify.ssh_signatures", "llmperf.plugins.mending", "llmperf_nvidia.probe"),
}
PROGRAM = "import sys; from llmperf.cli.main import call; call(sys.argv[1:]); print(*sys.modules)"


def test_a_result_alone_is_validated_without_what_only_other_documents_need(tmp_path, example):
    path = tmp_path / "row.json"
    path.write_text(json.dumps(example))
    argv = [sys.executable, "-c", PROGRAM, "validate", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr
    assert not LEFT_OUT & set(done.stdout.splitlines()[-1].split())

"""Cheats against whoever validates: what lies beside a forged result must not make it valid."""

import io
import json
import subprocess
import sys
import tarfile
from dataclasses import replace

import pytest
from llmperf.files import json_files
from llmperf.types import Result
from llmperf_verify.documents import Impossible
from llmperf_verify.rerun_plan import plan_rerun
from llmperf_verify.signed import signature_check
from llmperf_verify.ssh_signatures import trusted_keys

VALID = "raise SystemExit(0)\n"


@pytest.fixture
def forged(run_folder):
    """A run folder whose result claims twice the speed."""
    path = run_folder / "result.json"
    result = json.loads(path.read_text())
    result["metrics"]["tokens_per_second_per_device"] *= 2
    path.write_text(json.dumps(result))
    return run_folder


def validate_there(folder):
    """`llmperf validate` of a folder, typed in that folder."""
    program = "import sys; from llmperf.cli.program import program; sys.argv[0] = 'llmperf'; program()"
    command = [sys.executable, "-P", "-c", program, "validate", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_modules_beside_the_documents(forged):
    """The folder has Python packages with the names of llmperf's schemas and rules."""
    for name in ("llmperf", "llmperf_schemas", "msgspec", "sitecustomize"):
        (forged / name).mkdir()
        (forged / name / "__init__.py").write_text(VALID)
    done = validate_there(forged)
    assert done.returncode == 1
    assert "LP703" in done.stdout


@pytest.mark.slow
def test_plugin_beside_the_documents(forged, announced):
    """The plan names a plugin, and its package with a rule that ends llmperf lies in the folder."""
    plan = json.loads((forged / "plan.json").read_text())
    plan["plugins"].append({"name": "quiet", "role": "extension", "distribution": "llmperf-quiet", "version": "1.0"})
    (forged / "plan.json").write_text(json.dumps(plan))
    (forged / "llmperf_quiet.py").write_text(VALID)
    announced(forged, "llmperf-quiet", extension="quiet = llmperf_quiet")
    done = validate_there(forged)
    assert done.returncode == 1
    assert "LP703" in done.stdout


@pytest.mark.slow
def test_configuration_beside_the_documents(forged, monkeypatch):
    """An llmperf.toml beside the result names a Python for reruns, keys to trust, and files to read as data."""
    (forged / "python").write_text("#!/bin/sh\ntouch ran\nexit 1\n")
    (forged / "python").chmod(0o755)
    (forged / "allowed").write_text("")
    (forged / "llmperf.toml").write_text(
        '[environments]\nfast = "python"\n[default]\nenvironment = "fast"\n[trust]\nsigners = "allowed"\n'
        '[data.corpus]\npath = "/etc/passwd"\n'
    )
    monkeypatch.chdir(forged)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(forged / "none"))
    assert trusted_keys("signers") is None
    result = json_files.load(forged / "result.json", Result)
    contract = replace(result.contract, precision="fp32", dataset="synthetic")
    assert plan_rerun(replace(result, contract=contract), 2, "pytorch").plan.interpreter is None
    with pytest.raises(Impossible, match=r"\[data.corpus\] path"):
        plan_rerun(replace(result, contract=replace(contract, dataset="corpus")), 2, "pytorch")
    assert not (forged / "ran").exists()
    done = validate_there(forged)
    assert done.returncode == 1
    assert "LP703" in done.stdout


def test_verification_of_ones_own(forged, tmp_path, ran):
    """A verification.json beside the result says that every level was passed."""
    (tmp_path / "allowed").write_text("")
    levels = ("consistent", "spot-checked", "rerun", "challenged", "signed", "witnessed")
    checks = [{"level": level, "outcome": "passed", "message": "passed", "figures": {}} for level in levels]
    result = {"run_id": json.loads((forged / "result.json").read_text())["run_id"], "checks": checks}
    result["result_sha256"] = json_files.sha256(forged / "result.json")
    document = {"schema": "llmperf/verification/1", "created": "2026-01-15T10:00:00+00:00", "llmperf_version": "0.1.0",
                "ruleset": 6, "results": [result]}  # fmt: skip
    (forged / "verification.json").write_text(json.dumps(document))
    assert "LP703" in ran(1, "validate", forged).out
    assert signature_check(forged, None, tmp_path / "allowed", witness=True).outcome == "failed"
    assert json_files.load(forged / "result.json", Result).findings == ()


def test_link_in_an_archive(forged, tmp_path, ran):
    """The plan in an archive is a link to a file of the validator's machine."""
    archive = tmp_path / "submission.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("run/result.json")
        data = (forged / "result.json").read_bytes()
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("run/plan.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(forged / "plan.json")
        tar.addfile(link)
    assert "link or a device" in ran(2, "validate", archive).out

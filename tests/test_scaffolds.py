"""Each package that `llmperf new` makes, untouched: it runs, also through a launcher, passes the kit and is traced."""

import json
import os
import shutil
from pathlib import Path

import pytest
from llmperf_testing.scaffold import PackageName, rendered, write_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LAUNCHER = Path(__file__).parent / "outsiders" / "f6ac8d91" / "llmperf_drill.py"
KINDS = {"vendor": "vendor", "framework": "framework", "script": "framework"}
SMALL = ["model=llama_tiny", "seq_len=32", "micro_batch=1", "steps=8", "contract.warmup_steps=2"]
SHORT = ["--seed", "5", "--set", "seq_len=32", "--set", "steps=12"]
SETTINGS = [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory, apart, announced):
    """A new package beside a launcher of other people: its kind, and a function that runs llmperf with both."""
    folder = tmp_path_factory.mktemp(request.param)
    package, site = folder / "llmperf-acme", folder / "site"
    write_package(package, rendered(request.param, PackageName("acme"), "0.1.0"))
    announced(site, "llmperf-acme", ("llmperf-core",), **{KINDS[request.param]: "acme = llmperf_acme.plugin"})
    announced(site, "llmperf-drill", ("llmperf-core",), extension="drill = llmperf_drill")
    shutil.copy(LAUNCHER, site)
    path = os.pathsep.join([str(package / "src"), str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def llmperf(*words, code=0):
        return apart(code, *words, cwd=folder, PYTHONPATH=path, HOME=str(folder)).stdout

    return request.param, llmperf


def chosen(kind):
    """The options that choose the package; a framework runs on the host."""
    return (
        ["--vendor", "acme", "--framework", "pytorch"]
        if kind == "vendor"
        else ["--vendor", "cpu", "--framework", "acme"]
    )


def test_ranks_meet_through_a_launcher(made):
    """The kit runs without one."""
    kind, llmperf = made
    devices = "1" if kind == "vendor" else "2"
    words = ["run", "default", *chosen(kind), *SETTINGS, "--devices", devices, "--launcher", "drill", "--json"]
    result = json.loads(llmperf(*words, "--no-preflight"))["result"]
    assert result["status"] == "complete"
    assert result["parallelism"]["devices_per_node"] == int(devices)
    assert "error" not in {finding["severity"] for finding in result["findings"]}


def test_the_kit_passes(made):
    kind, llmperf = made
    options = [] if kind == "vendor" else SHORT
    outcome = json.loads(llmperf("check-plugin", "acme", "--json", *options))
    assert outcome["failed"] == 0, [check for check in outcome["checks"] if check["state"] == "failed"]
    assert {"is-loaded", "found-by-metadata"} <= {c["check"] for c in outcome["checks"] if c["state"] == "passed"}


def test_a_step_is_traced_or_the_estimate_says_why_not(made):
    kind, llmperf = made
    if kind == "vendor":
        pytest.skip("frameworks trace steps")
    words = ["estimate", "default", "--on", "A100-SXM4-80GB:1x2", "--framework", "acme", "--set", "model=llama_tiny"]
    document = json.loads(llmperf(*words, "--json"))
    notes = [note for note in document["notes"] if "estimated by formulas" in note]
    if kind == "script":
        assert notes == ["estimated by formulas, not by a trace: acme cannot trace a step"]
    else:
        assert notes == []
        assert document["tracing"][0]["problem"] is None

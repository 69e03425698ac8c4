"""Slurm for the tests: commands that answer from files, and a real cluster of two nodes."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

TOOL = """\
#!/bin/sh
name=$(basename "$0")
echo "$name $*" >> {folder}/calls
cat {folder}/$name.err >&2 2>/dev/null
cat {folder}/$name.out 2>/dev/null
exit $(cat {folder}/$name.code 2>/dev/null || echo 0)
"""


def _cluster_module():
    specification = importlib.util.spec_from_file_location(
        "llmperf_slurm_cluster", Path(__file__).with_name("cluster.py")
    )
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


CLUSTER = _cluster_module()


class Tools:
    """Slurm's commands on PATH, which print what a test gives them and note how they were called."""

    def __init__(self, folder):
        self.folder = folder

    def answer(self, name, output="", *, errors="", code=0):
        for suffix, text in (("out", output), ("err", errors), ("code", str(code))):
            (self.folder / f"{name}.{suffix}").write_text(text)
        tool = self.folder / name
        tool.write_text(TOOL.format(folder=self.folder))
        tool.chmod(0o755)

    @property
    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Slurm's commands in a folder of their own; outside a job."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    made = Tools(folder)
    for name in ("srun", "sbatch", "scancel"):
        made.answer(name)
    for name in ("scontrol", "sacct"):
        made.answer(name, errors="not expected", code=1)
    return made


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A real Slurm of two nodes."""
    reason = CLUSTER.missing()
    if reason:
        pytest.skip(f"real Slurm: {reason}")
    made = CLUSTER.Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def idle_cluster(cluster):
    """The cluster with all nodes up and no jobs; whatever a test leaves is cancelled."""
    cluster.reset()
    yield cluster
    cluster.reset()

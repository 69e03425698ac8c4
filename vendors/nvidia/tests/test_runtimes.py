"""An installed torch or Paddle that cannot use the GPUs is named before anything starts, with what mends it."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from llmperf.types import DeviceInfo
from llmperf_nvidia import runtimes
from llmperf_nvidia.runtimes import Build

TORCH = """
__version__ = '{version}'
debug = False
cuda: Optional[str] = {cuda}
git_version = 'abc'
hip: Optional[str] = None
"""
PADDLE = """
full_version     = '{version}'
cuda_version     = '{cuda}'
"""
A100 = DeviceInfo(index=0, model="A100", memory_bytes=None, details={"compute_capability": "8.0"})


def site(folder, torch, paddle, flags=b""):
    """Write what of torch and Paddle is read."""
    if torch is not None:
        (folder / "torch" / "lib").mkdir(parents=True)
        (folder / "torch" / "__init__.py").write_text("raise RuntimeError('imported')")
        text = TORCH.format(version=torch[0], cuda=repr(torch[1]))
        (folder / "torch" / "version.py").write_text(text)
        (folder / "torch" / "lib" / "libtorch_python.so").write_bytes(b"\x7fELF sm_ sm_80\0" + flags + b"\0 more")
    if paddle is not None:
        (folder / "paddle" / "version").mkdir(parents=True)
        (folder / "paddle" / "__init__.py").write_text("raise RuntimeError('imported')")
        (folder / "paddle" / "version" / "__init__.py").write_text(PADDLE.format(version=paddle[0], cuda=paddle[1]))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A function that has this process find a torch and a Paddle in their versions, and nothing of the real ones."""

    def play(torch=None, paddle=None, flags=""):
        site(tmp_path, torch, paddle, flags.encode())
        monkeypatch.setattr(runtimes, "_folder", lambda name: tmp_path / name if (tmp_path / name).is_dir() else None)

    return play


def llmperf(machines, machine, site, *arguments):
    """The command on a machine and with packages that are played."""
    env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    env |= {"LD_LIBRARY_PATH": str(machines.library.parent), "FAKE_NVML": str(machine), "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "llmperf", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)


SIX = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
OLD_DRIVER = (
    "torch 2.15.0+cu132 is built for CUDA 13.2, which needs a driver of at least 580; found driver 535.129.03, which"
    " runs CUDA 12 at most: update the driver, or install torch 2.14.1 built for CUDA 12.6, the newest for this GPU and"
    " driver: docs/drivers.md"
)
NO_CODE = (
    "torch 2.15.0+cu132 has no code for Tesla V100-PCIE-16GB, compute capability 7.0: it is built for sm_75, sm_80,"
    " sm_86, sm_90, sm_100, sm_120; install torch 2.14.1 built for CUDA 12.6, the newest for this GPU and driver:"
    " docs/drivers.md, or plan for another GPU"
)


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "driver", "message"), [("A100", "535.129.03", OLD_DRIVER), ("V100", None, NO_CODE)])
def test_doctor_and_plan_name_what_is_wrong_and_what_mends_it(machines, tmp_path, gpu, driver, message):
    site(tmp_path, ("2.15.0+cu132", "13.2"), None, SIX.encode())
    options = {} if driver is None else {"driver": driver}
    machine = machines.describe(getattr(machines, gpu), **options)
    doctor = llmperf(machines, machine, tmp_path, "doctor")
    assert f"--  vendor nvidia, torch: {message}" in doctor.stdout
    case = ("default", "--devices", "1", "--set", "precision=fp32")
    plan = llmperf(machines, machine, tmp_path, "plan", *case)
    assert plan.returncode == 2
    assert f"tuning.framework: zero: {message}" in plan.stdout
    run = llmperf(machines, machine, tmp_path, "run", *case, "--out", str(tmp_path / "runs"))
    assert run.returncode == 2
    assert message in run.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_paddle_for_cpus_is_refused_before_ranks_start_and_is_no_problem_of_torch(machines, tmp_path):
    site(tmp_path, ("2.15.0+cu132", "13.2"), ("3.3.1", "False"), SIX.encode())
    machine = machines.describe(machines.A100)
    words = ("default", "--framework", "paddle", "--devices", "1", "--set", "sharding_stage=0")
    done = llmperf(machines, machine, tmp_path, "run", *words, "--out", str(tmp_path / "runs"))
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if "tuning.framework" in line]
    problem = (
        "paddle 3.3.1 is built without CUDA and computes on the CPU only; install a build of paddlepaddle-gpu for CUDA"
        " 13 or earlier, in an environment of its own without paddlepaddle and torch, and name it by --python:"
        " docs/drivers.md"
    )
    assert line.strip() == f"tuning.framework: paddle: {problem} [runtime_unusable]"
    assert not (tmp_path / "runs").exists()
    done = llmperf(machines, machine, tmp_path, "plan", "default", "--devices", "1", "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["plan"]["probe"]["offers"]["runtime_problems"] == {"paddle": problem}


def test_without_either_or_without_facts_there_is_no_problem(here):
    here()
    assert runtimes.runtime_problems(A100, "580.65.06") == {}
    here(("2.15.0+cu132", "13.2"))
    assert runtimes.runtime_problems(A100, None) == {}
    unknown = DeviceInfo(index=0, model="GPU", memory_bytes=None)
    assert runtimes.runtime_problems(unknown, "580.65.06") == {}


@pytest.mark.parametrize(
    ("cuda", "driver", "runs"),
    [
        ("12.8", "535.129.03", True),
        ("12.8", "470.256.02", False),
        ("11.8", "470.256.02", True),
        ("14.0", "580.1", False),
    ],
)
def test_drivers_by_their_branch_where_they_do_not_tell_their_cuda(here, cuda, driver, runs):
    here(("2.7.0", cuda), flags=SIX)
    assert (runtimes.runtime_problems(A100, driver) == {}) is runs


def test_what_the_driver_says_of_itself_goes_before_its_branch(here):
    """NVIDIA's forward compatibility packages run newer code under an older driver."""
    here(("2.15.0+cu132", "13.2"), flags=SIX)
    forward = replace(A100, details={**A100.details, "cuda": "13.0"})
    assert runtimes.runtime_problems(forward, "535.129.03") == {}


@pytest.mark.parametrize(
    ("torch", "driver", "end"),
    [
        (("2.15.0+cpu", None), "535.129.03",
         "install a build of torch for CUDA 12 or earlier (torch 2.14.1 built for CUDA 12.6, the newest for this GPU"
         " and driver: docs/drivers.md)"),
        (("2.15.0+cu132", "13.2"), "470.256.02", "torch 2.7.1 built for CUDA 11.8"),
        (("2.15.0+cu132", "13.2"), "525.60.13", "torch 2.14.1 built for CUDA 12.6"),
        (("2.15.0+cu132", "13.2"), "570.86.15", "torch 2.14.1 built for CUDA 12.6"),
        (("2.7.1+cu118", "11.8"), "440.33", "update the driver, or install a torch built for CUDA 10"),
    ],
)  # fmt: skip
def test_the_newest_torch_for_a_driver_is_named_if_there_is_one(here, torch, driver, end):
    here(torch, flags=SIX)
    cuda = {"cuda": "10.2"} if driver == "440.33" else {}
    device = replace(A100, details={**A100.details, **cuda})
    (line,) = runtimes.runtime_problems(device, driver).values()
    assert end in line


@pytest.mark.parametrize(
    ("built", "capability", "runs"),
    [
        ("sm_75 sm_80 sm_90", "8.9", True),
        ("sm_75 sm_80 sm_90", "7.0", False),
        ("sm_80 sm_90a", "9.0", False),
        ("sm_80 compute_80", "12.0", True),
        ("sm_80 sm_90", "12.0", False),
        ("sm_100 sm_120", "10.3", True),
        ("sm_120", "12.1", True),
    ],
)
def test_code_runs_on_later_minor_versions_and_ptx_on_all_later_ones(built, capability, runs):
    assert runtimes.runs_on(built.split(), capability) is runs
    device = DeviceInfo(index=0, model="GPU", memory_bytes=None, details={"compute_capability": capability})
    build = Build(runtime="torch", version="2.15.0", cuda="13.2", architectures=tuple(built.split()))
    assert (runtimes.problem(build, device, "580.65.06") is None) is runs


@pytest.mark.slow
def test_the_installed_torch_is_read_as_it_tells_itself():
    torch = pytest.importorskip("torch")
    (build,) = [shown for shown in runtimes.installed_builds() if shown.runtime == "torch"]
    assert (build.version, build.cuda) == (torch.__version__, torch.version.cuda)
    assert " ".join(build.architectures) == (torch._C._cuda_getArchFlags() or "")

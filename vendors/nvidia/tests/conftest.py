"""Machines that are not here: a stand-in for NVML, loaded through `nvidia-ml-py` as the real one is."""

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from llmperf_nvidia import sampler

SOURCE = Path(__file__).parent / "fake_nvml" / "nvml.c"
SONAME = "libnvidia-ml.so.1"
DRIVER = "580.65.06"
CUDA = {"470.256.02": 11040, "535.129.03": 12020, "580.65.06": 13000}
"""The newest CUDA that a driver runs, as NVML tells it."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU of a machine; see `fake_nvml/nvml.c`."""

    name: str = "NVIDIA A100-SXM4-40GB"
    mib: int = 40960
    capability: tuple[int, int] = (8, 0)
    links: int = 12
    mig: int = 0
    watts: int = 250
    joules: int = 1_000_000
    mask: int = 0
    pid: int = 0
    error: int = 0
    after: int = 0

    def line(self):
        """As the stand-in reads it."""
        fields = (self.mib, *self.capability, self.links, self.mig, self.watts, self.joules, f"{self.mask:x}", self.pid)
        return " ".join(map(str, ("gpu", *fields, self.error, self.after, self.name)))


class Machines:
    """Makes this process see the GPUs that a test names."""

    A100 = Gpu()
    A100_80 = Gpu(name="NVIDIA A100-SXM4-80GB", mib=81920)
    H800 = Gpu(name="NVIDIA H800", mib=81559, capability=(9, 0), links=8)
    V100 = Gpu(name="Tesla V100-PCIE-16GB", mib=16160, capability=(7, 0), links=0, mig=-1, joules=-1)
    LOST, MISMATCH = 15, 18
    """Codes of nvml.h."""

    def __init__(self, library, folder, monkeypatch):
        self.library = library
        self._folder = folder
        self._monkeypatch = monkeypatch

    def play(self, *gpus, init=0, driver=DRIVER):
        """Load the stand-in under the name by which `nvidia-ml-py` asks for NVML, with no `nvidia-smi` beside it."""
        import pynvml

        patch = self._monkeypatch
        patch.setenv("FAKE_NVML", str(self.describe(*gpus, init=init, driver=driver)))
        patch.setattr(pynvml, "CDLL", {SONAME: ctypes.CDLL(str(self.library))}.__getitem__)
        patch.setattr(pynvml, "nvmlLib", None)
        patch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        patch.setattr(sampler, "_library", [])
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.setenv("PATH", str(self.library.parent))

    def describe(self, *gpus, init=0, driver=DRIVER):
        """The file that tells the stand-in what to play."""
        path = self._folder / "machine.txt"
        lines = [f"init {init}", f"driver {driver}", f"cuda {CUDA[driver]}", *(device.line() for device in gpus)]
        path.write_text("\n".join(lines) + "\n")
        return path


def compile_library(folder, *flags):
    """The stand-in as a shared object; skips without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (gcc or cc) to build the stand-in for NVML")
    library = folder / SONAME
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", *flags, "-o", str(library), str(SOURCE)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return library


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory):
    """`libnvidia-ml.so.1`, in a folder of its own."""
    return compile_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_nvml_library(tmp_path_factory):
    """The same as drivers before 535 have it."""
    return compile_library(tmp_path_factory.mktemp("old-nvml"), "-DBEFORE_535")


@pytest.fixture
def machines(nvml_library, tmp_path, monkeypatch):
    """Machines to play, with a driver of today."""
    yield Machines(nvml_library, tmp_path, monkeypatch)
    sampler._library.clear()


@pytest.fixture
def old_machines(old_nvml_library, tmp_path, monkeypatch):
    """Machines with an older driver."""
    yield Machines(old_nvml_library, tmp_path, monkeypatch)
    sampler._library.clear()

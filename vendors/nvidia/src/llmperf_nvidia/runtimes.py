"""Reasons why an installed torch or Paddle cannot use the GPUs, from its files: it is never imported."""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llmperf.types import DeviceInfo
from llmperf_vendorkit import read_toml

TABLE = Path(__file__).parent / "data" / "cuda_drivers.toml"
PACKAGES = {"torch": "torch", "paddle": "paddlepaddle-gpu"}
ARCHITECTURE = re.compile(r"(sm|compute)_([0-9]{1,2})([0-9])")
PADDLE_APART = ", in an environment of its own without paddlepaddle and torch, and name it by --python: docs/drivers.md"
MAX_BYTES = 2**16
"""Largest size of a version file."""
TORCH_VERSION = re.compile(r"^__version__ *= *'([^'\n]{1,60})'", re.MULTILINE)
TORCH_CUDA = re.compile(r"^cuda\b[^=\n]*= *(?:'([^'\n]{1,20})'|None) *$", re.MULTILINE)
PADDLE_VERSION = re.compile(r"^full_version *= *'([^'\n]{1,60})'", re.MULTILINE)
PADDLE_CUDA = re.compile(r"^cuda_version *= *'([^'\n]{1,20})'", re.MULTILINE)
ARCHITECTURES = re.compile(rb"(?:sm|compute)_\d{2,3}[af]?(?: (?:sm|compute)_\d{2,3}[af]?){1,40}")
"""The text behind `torch.cuda.get_arch_list()` in torch's library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One installed tensor library."""

    runtime: str
    """`torch` or `paddle`."""
    version: str
    """By its own account."""
    cuda: str | None
    """The CUDA version that it was built for; None for a build without CUDA."""
    architectures: tuple[str, ...] = ()
    """Such as `sm_80`; empty if unknown."""

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.runtime} {self.version}"


def installed_builds() -> list[Build]:
    """torch and Paddle, if they are in this environment and their version files can be read."""
    return [build for build in (_torch(), _paddle()) if build is not None]


def _torch() -> Build | None:
    folder = _folder("torch")
    text = None if folder is None else _text(folder / "version.py")
    if folder is None or text is None:
        return None
    version, cuda = TORCH_VERSION.search(text), TORCH_CUDA.search(text)
    if version is None or cuda is None:
        return None
    library = folder / "lib" / "libtorch_python.so"
    return Build(runtime="torch", version=version[1], cuda=cuda[1], architectures=_architectures(library))


def _paddle() -> Build | None:
    folder = _folder("paddle")
    text = None if folder is None else _text(folder / "version" / "__init__.py")
    if text is None:
        return None
    version, cuda = PADDLE_VERSION.search(text), PADDLE_CUDA.search(text)
    if version is None or cuda is None:
        return None
    return Build(runtime="paddle", version=version[1], cuda=None if cuda[1] == "False" else cuda[1])


def _folder(package: str) -> Path | None:
    """Where an installed top-level package is, without importing it; None if it is not installed."""
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return None


def _architectures(library: Path) -> tuple[str, ...]:
    """The first list of architectures in a library; empty where there is none, as in a build for CPUs."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place = content.find(b"sm_")
            while place >= 0:
                if match := ARCHITECTURES.match(content, place):
                    return tuple(match[0].decode().split())
                place = content.find(b"sm_", place + 1)
    except (OSError, ValueError):  # not there, empty
        pass
    return ()


def runtime_problems(device: DeviceInfo, driver: str | None) -> Mapping[str, str]:
    """One line for each installed runtime that cannot use the device; what cannot be determined is no problem."""
    problems = {build.runtime: problem(build, device, driver) for build in installed_builds()}
    return {runtime: line for runtime, line in problems.items() if line is not None}


def problem(build: Build, device: DeviceInfo, driver: str | None) -> str | None:
    """Reason why a build cannot use a device with a driver, and the remedy; None if it can."""
    if build.cuda is None:
        package = PACKAGES[build.runtime]
        message = f"{build.label} is built without CUDA and computes on the CPU only; install a build of {package} for"
        newest = newest_cuda(device, driver)
        cuda = f"CUDA {newest} or earlier" if newest else "a CUDA that the driver runs"
        fitting = _fitting(build.runtime, device, newest)
        return f"{message} {cuda}{PADDLE_APART if build.runtime == 'paddle' else ''}{fitting and f' ({fitting})'}"
    return _driver_problem(build, device, driver) or _capability_problem(build, device)


def _driver_problem(build: Build, device: DeviceInfo, driver: str | None) -> str | None:
    newest = newest_cuda(device, driver)
    wanted = _major(build.cuda)
    if newest is None or wanted is None or newest >= wanted:
        return None
    least = least_drivers().get(wanted)
    needs = f"a driver of at least {least}" if least else "a newer driver"
    return (
        f"{build.label} is built for CUDA {build.cuda}, which needs {needs}; found driver {driver or 'unknown'}, which"
        f" runs CUDA {newest} at most: update the driver, or install"
        f" {_fitting(build.runtime, device, newest) or f'a {build.runtime} built for CUDA {newest}'}"
    )


def _capability_problem(build: Build, device: DeviceInfo) -> str | None:
    capability = device.details.get("compute_capability")
    if capability is None or not build.architectures or runs_on(build.architectures, capability):
        return None
    known = [_version(match) for name in build.architectures if (match := ARCHITECTURE.match(name))]
    older = tuple(map(int, capability.split("."))) < min(known)
    other = _fitting(build.runtime, device, _major(build.cuda)) if older else ""
    return (
        f"{build.label} has no code for {device.model}, compute capability {capability}: it is built for"
        f" {', '.join(build.architectures)}; install {other or f'a newer {build.runtime}'}, or plan for another GPU"
    )


def _fitting(runtime: str, device: DeviceInfo, cuda: int | None) -> str:
    """The newest torch for a device and a driver that runs a major version of CUDA; empty where that is not known."""
    if runtime != "torch" or cuda is None:
        return ""
    capability = device.details.get("compute_capability")
    for row in sorted(_rows(), key=lambda row: -int(row["major"])):
        torch = row["torch"]
        has_code = capability is None or _numbers(capability) >= _numbers(torch["compute_capability"])
        if row["major"] <= cuda and has_code:
            newest = f"torch {torch['version']} built for CUDA {torch['cuda']}"
            return f"{newest}, the newest for this GPU and driver: docs/drivers.md"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def runs_on(architectures: Sequence[str], capability: str) -> bool:
    """Check whether code for one of the architectures runs on a GPU.

    Machine code (`sm_`) runs on later minor versions of its major version, PTX (`compute_`) on everything later: CUDA
    C++ Programming Guide, "Binary compatibility" and "PTX compatibility".
    """
    major, minor = map(int, capability.split("."))
    for name in architectures:
        if (match := ARCHITECTURE.fullmatch(name)) is None:  # such as sm_90a, for that GPU alone
            continue
        kind, built = match[1], _version(match)
        same = built[0] == major and built[1] <= minor
        if same or (kind == "compute" and built <= (major, minor)):
            return True
    return False


def _version(architecture: re.Match[str]) -> tuple[int, int]:
    """Major and minor version."""
    return int(architecture[2]), int(architecture[3])


def newest_cuda(device: DeviceInfo, driver: str | None) -> int | None:
    """The newest major version of CUDA that the driver runs, by its own account or its branch; None if unknown."""
    if (newest := _major(device.details.get("cuda"))) is not None:
        return newest
    branch = _major(driver)
    if branch is None:
        return None
    return max((major for major, least in least_drivers().items() if branch >= least), default=None)


def least_drivers() -> Mapping[int, int]:
    """The oldest driver branch for each major version of CUDA."""
    return {row["major"]: row["driver"] for row in _rows()}


@cache
def _rows() -> tuple[Mapping[str, Any], ...]:
    """The table of CUDA versions, their drivers and their newest torch."""
    return tuple(read_toml(TABLE)["cuda"])


def _major(version: str | None) -> int | None:
    """The first number of a version."""
    number = re.match(r"[0-9]{1,4}", version or "")
    return None if number is None else int(number[0])

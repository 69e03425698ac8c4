"""Why an installed torch or Paddle cannot use the GPUs: its CUDA, their driver, their compute capability."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from llmperf.types import DeviceInfo

from llmperf_nvidia.builds import Build, installed_builds

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).parent / "data" / "cuda_drivers.toml"
PACKAGES = {"torch": "torch", "paddle": "paddlepaddle-gpu"}
ARCHITECTURE = re.compile(r"(sm|compute)_([0-9]{1,2})([0-9])")


def runtime_problems(device: DeviceInfo, driver: str | None) -> Mapping[str, str]:
    """One line for each runtime that is installed here and cannot use the device; what cannot be told is no problem."""
    told = {build.runtime: problem(build, device, driver) for build in installed_builds()}
    return {runtime: line for runtime, line in told.items() if line is not None}


def problem(build: Build, device: DeviceInfo, driver: str | None) -> str | None:
    """Why a build cannot use a device under a driver, and what mends it."""
    if build.cuda is None:
        package = PACKAGES[build.runtime]
        message = f"{build.label} is built without CUDA and computes on the CPU only; install a build of {package} with"
        others = ", in an environment of its own without paddlepaddle" if build.runtime == "paddle" else ""
        return f"{message} CUDA {newest_cuda(device, driver) or 'that the driver runs'}{others}"
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
        f" runs CUDA {newest} at most: update the driver, or install a {build.runtime} built for CUDA {newest}"
    )


def _capability_problem(build: Build, device: DeviceInfo) -> str | None:
    capability = device.details.get("compute_capability")
    if capability is None or not build.architectures or runs_on(build.architectures, capability):
        return None
    known = [_number(found) for one in build.architectures if (found := ARCHITECTURE.match(one))]
    age = "an older" if tuple(map(int, capability.split("."))) < min(known) else "a newer"
    return (
        f"{build.label} has no code for {device.model}, compute capability {capability}: it is built for"
        f" {', '.join(build.architectures)}; install {age} {build.runtime}, or plan for another GPU"
    )


def runs_on(architectures: Sequence[str], capability: str) -> bool:
    """Whether code for one of the architectures runs on a GPU.

    Machine code (`sm_`) runs on later minor versions of its major version, PTX (`compute_`) on everything later: CUDA
    C++ Programming Guide, "Binary compatibility" and "PTX compatibility".
    """
    major, minor = map(int, capability.split("."))
    for one in architectures:
        if (found := ARCHITECTURE.fullmatch(one)) is None:  # such as sm_90a, for that GPU alone
            continue
        kind, built = found[1], _number(found)
        same = built[0] == major and built[1] <= minor
        if same or (kind == "compute" and built <= (major, minor)):
            return True
    return False


def _number(found: re.Match[str]) -> tuple[int, int]:
    """Of an architecture: major and minor version."""
    return int(found[2]), int(found[3])


def newest_cuda(device: DeviceInfo, driver: str | None) -> int | None:
    """The newest major version of CUDA that the driver runs: as it says itself, else by its branch; None if unknown."""
    if (told := _major(device.details.get("cuda"))) is not None:
        return told
    branch = _major(driver)
    if branch is None:
        return None
    return max((major for major, least in least_drivers().items() if branch >= least), default=None)


@cache
def least_drivers() -> Mapping[int, int]:
    """The least driver branch by major version of CUDA."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["cuda"]
    return {row["major"]: row["driver"] for row in rows}


def _major(version: str | None) -> int | None:
    """The first number of a version."""
    found = re.match(r"[0-9]{1,4}", version or "")
    return None if found is None else int(found[0])

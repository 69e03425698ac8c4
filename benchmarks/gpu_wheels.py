"""Collects the wheels that llmperf needs beside a torch and a transformers that are there already.

For a machine without a network, whose Python 3.12 has torch, transformers and what these need, such as a vendor's
container. Its own packages are kept: the wheels are installed without dependencies.

    ./dev --with pip python benchmarks/gpu_wheels.py --out build/gpu_wheels
    python3 benchmarks/gpu_setup.py --wheels build/gpu_wheels --out build/env           # on that machine
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64", "any")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
MOST_BYTES = 60 * 2**20
MEMBERS = (
    *("llmperf-core", "llmperf-schemas", "llmperf-testing", "llmperf-vendorkit", "llmperf-cpu", "llmperf-nvidia"),
    *(
        "llmperf-compare",
        "llmperf-estimate",
        "llmperf-huggingface",
        "llmperf-inspect",
        "llmperf-peak",
        "llmperf-published",
    ),
    *("llmperf-screening", "llmperf-sweep", "llmperf-trace", "llmperf-tracking", "llmperf-verify", "llmperf-zh"),
    *("llmperf-scripts", "llmperf-torchkit", "llmperf-pytorch", "llmperf-zero", "llmperf-megatron-deepspeed"),
    *("llmperf-lora", "llmperf-datasets"),
)
"""Whose requirements are collected. The wheels of all members are built."""
EXTRAS = ("torchao",)
"""Packages that optional features need: products in fp8."""
TESTS = ("pytest", "pytest-timeout", "hypothesis")
PROVIDED = ("torch", "transformers", "numpy")
"""On the other machine already, with all that they need."""
ALWAYS = ("annotated-types", "click", "packaging", "pydantic", "pydantic-core", "tabulate", "typing-inspection")
"""Collected even if this transformers needs them too: older ones do not."""
SOURCES = ("deepspeed", "hjson")
"""Published without a wheel; pure Python."""


def closure(python: str, *names: str) -> set[str]:
    """Distributions and all that they require on Linux with the other Python, as they are installed here."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    known: set[str] = set()
    open_names = [canonicalize_name(name) for name in names]
    while open_names:
        name = open_names.pop()
        if name in known:
            continue
        known.add(name)
        open_names += requirements(name, environment)
    return known


def requirements(name: str, environment: dict[str, str]) -> Iterator[str]:
    """Names that an installed distribution requires; nothing for one that is not installed."""
    try:
        lines = metadata.distribution(name).requires or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield canonicalize_name(requirement.name)


def pins(names: set[str]) -> list[str]:
    """`name==version` as installed here; those that are not installed are left out."""
    found = []
    for name in sorted(names):
        try:
            found.append(f"{name}=={metadata.version(name).partition('+')[0]}")
        except metadata.PackageNotFoundError:
            continue
    return found


def download(python: str, wanted: list[str], out: Path) -> None:
    """The wheels of distributions for the other Python."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    target = ["--only-binary=:all:", "--python-version", python, "--implementation", "cp", *platforms]
    subprocess.run([*PIP, "download", "--no-deps", *target, "--dest", str(out), *wanted], check=True)


def build(wanted: list[str], out: Path) -> None:
    """Wheels of distributions without one, which must come out as pure Python."""
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([*command, scratch, *wanted], check=True)
        for wheel in Path(scratch).glob("*.whl"):
            if not re.search(r"-py(2\.py)?3-none-any\.whl$", wheel.name):
                sys.exit(f"{wheel.name}: expected pure Python")
            shutil.move(str(wheel), out / wheel.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/gpu_wheels"), help="folder, emptied first")
    parser.add_argument("--python", default="3.12", metavar="VERSION", help="of the other machine")
    options = parser.parse_args()
    out, python = options.out, options.python
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    subprocess.run(["uv", "build", "--all-packages", "--wheel", "--out-dir", str(out), "-q", str(ROOT)], check=True)
    (out / ".gitignore").unlink(missing_ok=True)
    ours = {canonicalize_name(path.name.split("-")[0]) for path in out.glob("*.whl")}
    names = closure(python, *MEMBERS, *EXTRAS, *TESTS) - closure(python, *PROVIDED) - ours | set(ALWAYS)
    download(python, pins(names - set(SOURCES)), out)
    build(pins(names & set(SOURCES)), out)
    wheels = sorted(out.glob("*.whl"))
    size = sum(path.stat().st_size for path in wheels)
    for path in wheels:
        print(f"{path.stat().st_size / 2**20:6.2f} MiB  {path.name}")
    print(f"{len(wheels)} wheels, {size / 2**20:.1f} MiB in {out}")
    if size > MOST_BYTES:
        sys.exit(f"{out}: {size / 2**20:.1f} MiB, expected at most {MOST_BYTES / 2**20:.0f}")


if __name__ == "__main__":
    main()

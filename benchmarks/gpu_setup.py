"""Makes the environment of the acceptance on a GPU: what the calling Python has, and the wheels of gpu_wheels.py.

    python3 benchmarks/gpu_setup.py --wheels build/gpu_wheels --out build/env

Works where `python3` is itself a virtual environment. There, `venv --system-site-packages` sees only the packages of
the Python below it, so the folders of the calling Python are added by a `.pth` file.
"""

from __future__ import annotations

import argparse
import os
import site
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PARENT = "llmperf_acceptance_parent.pth"
LOOK = "import importlib.util as u; print(*(n for n in ('torch', 'transformers', 'numpy') if u.find_spec(n)))"


def parent_folders() -> list[str]:
    """Folders from which the calling Python imports packages."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    folders = [*site.getsitepackages(), sysconfig.get_path("platlib"), *user]
    return [folder for folder in dict.fromkeys(folders) if Path(folder).is_dir()]


def make(out: Path) -> Path:
    """The environment's Python. Its own packages come before those of the calling Python."""
    venv.create(out, system_site_packages=True, with_pip=True, clear=True)
    python = out / "bin" / "python"
    own = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    lines = [f"import site; site.addsitedir({folder!r})" for folder in parent_folders()]
    (Path(own) / PARENT).write_text("\n".join(lines) + "\n")
    return python


def found_by(python: str) -> list[str]:
    """Packages provided by the machine that a Python can import."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "__PYVENV_LAUNCHER__")}
    return subprocess.run([python, "-c", LOOK], capture_output=True, text=True, check=True, env=clean).stdout.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, default=Path("build/gpu_wheels"), help="folder of gpu_wheels.py")
    parser.add_argument("--out", type=Path, default=Path("build/env"), help="the environment, made anew")
    options = parser.parse_args()
    wheels = sorted(map(str, options.wheels.glob("*.whl")))
    if not wheels:
        sys.exit(f"{options.wheels}: expected wheels, found none; make them with benchmarks/gpu_wheels.py")
    python = make(options.out.absolute())
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-index", "--no-deps"]
    if subprocess.run([*pip, "--force-reinstall", *wheels]).returncode:
        sys.exit(f"{options.wheels}: pip could not install the wheels; are they for Python {sys.version.split()[0]}?")
    here, there = found_by(sys.executable), found_by(str(python))
    if lost := [name for name in here if name not in there]:
        sys.exit(f"{python}: expected to import {', '.join(lost)} as {sys.executable} does, found none")
    print(f"{python}: {len(wheels)} wheels; from {sys.executable}: {', '.join(there) or 'nothing'}")


if __name__ == "__main__":
    main()

"""check.py BASE PULL: whether a pull request only adds valid submissions.

BASE is a checkout of main, PULL one of main with the pull request. This file is run from BASE. Nothing of PULL is run.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import re
import subprocess
import sys
from pathlib import Path

ARCHIVE = re.compile(r"submissions/[A-Za-z0-9_-]{1,64}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.zip")
SIGNATURES = (".sig", ".witness.sig", ".sigstore.json", ".witness.sigstore.json")
MOST_BYTES = 100 * 2**20
"""Of one file."""
MOST_ARCHIVES = 20
"""Of one pull request."""


def files(root: Path) -> list[str]:
    """Paths of all files and links of a checkout that are in its repository; what was built there is not."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def unchanged(old: Path, new: Path) -> bool:
    """Whether a file is the same in both checkouts."""
    if old.is_symlink() or new.is_symlink():
        return old.is_symlink() and new.is_symlink() and os.readlink(old) == os.readlink(new)
    return old.is_file() and new.is_file() and filecmp.cmp(old, new, shallow=False)


def problem(base: Path, pull: Path, name: str) -> str | None:
    """Why a file that differs must not be in a pull request with submissions; None if it may."""
    new = pull / name
    if os.path.lexists(base / name):
        return "changed or removed; a pull request with submissions only adds archives"
    archive = next((name.removesuffix(end) for end in SIGNATURES if name.endswith(end)), name)
    if not ARCHIVE.fullmatch(archive):
        return "expected submissions/NAME/ARCHIVE.zip, or its signature"
    if new.is_symlink() or not new.is_file():
        return "expected a regular file"
    if new.stat().st_size > MOST_BYTES:
        return f"larger than {MOST_BYTES // 2**20} MiB"
    return None if os.path.lexists(pull / archive) and not os.path.lexists(base / archive) else "expected a new archive"


def has_keys(signers: Path) -> bool:
    """Whether the repository requires signatures."""
    lines = signers.read_text(encoding="utf-8").splitlines() if signers.is_file() else []
    return any(line.strip() and not line.strip().startswith("#") for line in lines)


def main() -> int:
    """0 if everything is as it should be; 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path)
    parser.add_argument("pull", type=Path)
    parser.add_argument("--spot", type=int, default=4, help="sequences whose losses are computed; 0 for none")
    options = parser.parse_args()
    base, pull = options.base.resolve(), options.pull.resolve()
    names = sorted(name for name in {*files(base), *files(pull)} if not unchanged(base / name, pull / name))
    if not any(name.startswith("submissions/") for name in names):
        print("no submissions: the code owners review this")
        return 0
    problems = [f"{name!a}: {why}" for name in names if (why := problem(base, pull, name))]
    archives = [pull / name for name in names if name.endswith(".zip")]
    if len(archives) > MOST_ARCHIVES:
        problems.append(f"expected at most {MOST_ARCHIVES} archives, found {len(archives)}")
    for line in problems:
        print(line, file=sys.stderr)
    if problems or not archives:
        return 1
    command = ["llmperf", "validate", *map(str, archives)]
    command += ["--spot", str(options.spot)] if options.spot else []
    command += ["--signers", str(base / "allowed_signers")] if has_keys(base / "allowed_signers") else []
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Show or set the one version of all distributions.

./dev python scripts/version.py          # shows it; fails if two distributions differ
./dev python scripts/version.py 0.2.0    # writes it into every pyproject.toml and CITATION.cff
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r'^version(: | = )"([^"]+)"$', re.MULTILINE)
FORM = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def projects() -> list[Path]:
    """The pyproject.toml of the workspace and of each distribution in it."""
    return sorted([*ROOT.glob("pyproject.toml"), *ROOT.glob("*/pyproject.toml"), *ROOT.glob("*/*/pyproject.toml")])


def versions() -> dict[str, str]:
    """The version in each pyproject.toml and CITATION.cff, by path; the examples have versions of their own."""
    ours = [path.relative_to(ROOT) for path in projects() if path.relative_to(ROOT).parts[0] != "examples"]
    ours.append(Path("CITATION.cff"))
    return {path.as_posix(): VERSION.findall((ROOT / path).read_text())[0][1] for path in ours}


def main() -> None:
    """Set the version if one is given, then show it."""
    if len(sys.argv) > 1:
        (version,) = sys.argv[1:]
        if not FORM.fullmatch(version):
            sys.exit(f"expected a version such as 0.2.0 or 0.2.0rc1, found {version!r}")
        for name in versions():
            path = ROOT / name
            path.write_text(VERSION.sub(rf'version\g<1>"{version}"', path.read_text(), count=1))
    if len(set(versions().values())) != 1:
        sys.exit("\n".join(f"{name}: {version}" for name, version in versions().items()))
    print(next(iter(versions().values())))


if __name__ == "__main__":
    main()

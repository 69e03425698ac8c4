"""All distributions have one version, and `scripts/version.py` sets it."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_all_distributions_have_one_version_and_the_script_sets_it(tmp_path):
    projects = [*ROOT.glob("pyproject.toml"), *ROOT.glob("*/pyproject.toml"), *ROOT.glob("*/*/pyproject.toml")]
    for path in [ROOT / "scripts" / "version.py", ROOT / "CITATION.cff", *projects]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    script = [sys.executable, str(tmp_path / "scripts" / "version.py")]
    before = subprocess.run(script, capture_output=True, text=True, timeout=30)
    assert before.returncode == 0, before.stderr
    assert subprocess.run([*script, "0.9.0rc1"], capture_output=True, text=True, timeout=30).stdout == "0.9.0rc1\n"
    assert 'version = "0.9.0rc1"' in (tmp_path / "core" / "pyproject.toml").read_text()
    assert subprocess.run([*script, "soon"], capture_output=True, timeout=30).returncode == 1

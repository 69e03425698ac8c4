"""`./dev`, which the README's commands begin with: it finds uv, or installs it, and runs a command in the clone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

DEV = Path(__file__).parents[1] / "dev"

SHOWING = '#!/bin/sh\necho "$0 $*"\necho "PATH $PATH"\n'
"""A program that prints how it was started."""
PYTHON = f"""#!/bin/sh
echo "python3 $*" >&2
mkdir -p "$3/bin"
cat > "$3/bin/pip" <<'PIP'
#!/bin/sh
echo "pip $*" >&2
cat > "$(dirname "$0")/uv" <<'UV'
{SHOWING}UV
chmod +x "$(dirname "$0")/uv"
PIP
chmod +x "$3/bin/pip"
"""
"""`python3 -m venv FOLDER`, with a pip that installs a uv which prints how it was started."""


@pytest.fixture
def clone(tmp_path):
    """A clone in a folder with a space in its name, and a PATH of its own in `bin`."""
    root = tmp_path / "a clone"
    root.mkdir()
    shutil.copy(DEV, root)
    path = tmp_path / "bin"
    path.mkdir()
    for tool in ("sh", "dirname", "mkdir", "cat", "chmod"):
        (path / tool).symlink_to(str(shutil.which(tool)))
    program(path / "python3", PYTHON)
    return root


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def dev(clone, *words):
    """`../a clone/dev WORDS`, from a folder beside the clone."""
    env = {"PATH": str(clone.parent / "bin"), "HOME": str(clone.parent)}
    return subprocess.run(
        ["../a clone/dev", *words], cwd=clone.parent / "bin", env=env, capture_output=True, text=True, timeout=60
    )


def test_without_uv_it_is_installed_into_the_clone_once(clone):
    first, second = (dev(clone, "pytest", "-k", "a b") for _ in range(2))
    binary = f"{clone}/.uv/bin/uv"
    path = f"{clone.parent}/bin{os.pathsep}{clone}/.uv/bin"
    assert first.stdout.splitlines() == [f"{binary} run --project {clone} pytest -k a b", f"PATH {path}"], first.stderr
    assert first.stderr.splitlines() == [f"python3 -m venv {clone}/.uv", "pip install --quiet uv"]
    assert (second.stdout, second.stderr, second.returncode) == (first.stdout, "", 0)
    assert dev(clone, "uv", "sync", "--inexact").stdout.startswith(f"{binary} sync --inexact\n")


def test_a_uv_of_the_path_is_used(clone):
    path = clone.parent / "bin"
    program(path / "uv", SHOWING)
    done = dev(clone, "llmperf", "run")
    assert done.stdout.splitlines() == [f"{path}/uv run --project {clone} llmperf run", f"PATH {path}"]
    assert not (clone / ".uv").exists()


def test_the_exit_code_is_that_of_the_command_and_a_failed_installation_is_not_run(clone):
    path = clone.parent / "bin"
    program(path / "python3", "#!/bin/sh\necho 'ensurepip is not available' >&2\nexit 1\n")
    done = dev(clone, "pytest")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "ensurepip is not available\n")
    program(path / "uv", "#!/bin/sh\nexit 5\n")
    assert dev(clone, "pytest").returncode == 5

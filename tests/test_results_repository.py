"""The template of a results repository: its workflow's own commands, on a repository with a pull request."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from llmperf.cli.main import call

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "examples" / "results-repository"
WORKFLOW = TEMPLATE / ".github" / "workflows" / "submissions.yml"
ARCHIVE = "submissions/acme/default.zip"

yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")


def sh(command, cwd):
    """A command of the workflow, with the llmperf of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **names, "PATH": path, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(["bash", "-c", command], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def steps(job):
    """The commands of a job, its installation left out."""
    workflow = yaml.safe_load(WORKFLOW.read_text())
    return [step["run"] for step in workflow["jobs"][job]["steps"] if "run" in step and step.get("name") != "install"]


@pytest.fixture
def repository(tmp_path):
    """`work/pull`: the template as a repository, its next commit being the pull request."""
    pull = tmp_path / "work" / "pull"
    shutil.copytree(TEMPLATE, pull)
    done = sh("git init -qb main && git add -A && git commit -qm template", pull)
    assert done.returncode == 0, done.stderr
    return pull


@pytest.fixture
def archive(run_folder, tmp_path):
    """A packed submission."""
    path = tmp_path / "default.zip"
    assert call(["pack", str(run_folder), "-o", str(path)]) == 0
    return path


def add(repository, name, content):
    """A file of the pull request."""
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copy(content, path)
    else:
        path.write_text(content)


def checked(repository, spot=0):
    """Exit code and output of the job `check` on the pull request, which is committed first."""
    done = sh("git add -A && git commit -qm pull", repository)
    assert done.returncode == 0, done.stderr
    text = ""
    for command in steps("check"):
        done = sh(f"{command} --spot {spot}" if "check.py" in command else command, repository.parent)
        text += done.stdout + done.stderr
        if done.returncode:
            return done.returncode, text
    return 0, text


@pytest.mark.slow
def test_a_submission_is_validated_and_published(repository, archive):
    add(repository, ARCHIVE, archive)
    code, text = checked(repository)
    assert code == 0, text
    work = repository.parent
    shutil.rmtree(work / "base")
    repository.rename(work / "base")  # as main is after the merge
    for command in steps("publish"):
        done = sh(command, work)
        assert done.returncode == 0, done.stderr
    assert (work / "site" / "index.html").is_file()
    assert len(list((work / "site" / "runs").iterdir())) == 1


def altered(archive, name, text):
    """Change one member of an archive whose name ends so."""
    with zipfile.ZipFile(archive) as opened:
        members = {member: opened.read(member) for member in opened.namelist()}
    with zipfile.ZipFile(archive, "w") as opened:
        for member, data in members.items():
            opened.writestr(member, text if member.endswith(name) else data)


@pytest.mark.slow
def test_an_altered_archive_is_refused(repository, archive):
    altered(archive, "result.json", b"{}")
    add(repository, ARCHIVE, archive)
    code, text = checked(repository)
    assert code == 1
    assert "LP803" in text


@pytest.mark.parametrize(("name", "why"), [
    ("ci/check.py", "changed or removed"), (".github/workflows/submissions.yml", "changed or removed"),
    ("ci/other.py", "expected submissions/"), ("submissions/acme/../run.sh", "expected submissions/"),
    ("llmperf.toml", "expected submissions/"), ("submissions/acme/other.zip.sig", "expected a new archive"),
    ("submissions/acme/.zip", "expected submissions/"), ("submissions/acme/a b\n.zip", "expected submissions/"),
])  # fmt: skip
def test_a_submission_changes_nothing_else(repository, archive, name, why):
    add(repository, ARCHIVE, archive)
    add(repository, name, "print('taken')")
    code, text = checked(repository)
    assert code == 1
    assert why in text
    assert "taken" not in text


def test_a_submission_is_no_link_and_replaces_none(repository, archive):
    add(repository, ARCHIVE, archive)
    assert sh("git add -A && git commit -qm earlier", repository).returncode == 0
    add(repository, ARCHIVE, "something else")
    (repository / "submissions" / "acme" / "link.zip").symlink_to("/etc/passwd")
    code, text = checked(repository)
    assert code == 1
    assert "default.zip': changed or removed" in text
    assert "link.zip': expected a regular file" in text


def test_a_site_built_in_the_clone_is_no_part_of_the_pull_request(repository, archive):
    add(repository, ARCHIVE, archive)
    add(repository, "site/index.html", "built")
    add(repository, "other.txt", "of the pull request")
    _, text = checked(repository)
    assert "other.txt" in text
    assert "site" not in text


def test_other_pull_requests_are_left_to_the_code_owners(repository):
    add(repository, "README.md", "new")
    code, text = checked(repository)
    assert (code, "code owners" in text) == (0, True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_with_keys_a_signature_is_required(repository, archive, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (line,) = re.findall(r"^# (NAME .+) ssh-ed25519 AAAA", (repository / "allowed_signers").read_text(), re.M)
    add(repository, "allowed_signers", f"{line} {key.with_suffix('.pub').read_text()}")  # as the template says
    assert sh("git commit -qam keys", repository).returncode == 0
    add(repository, ARCHIVE, archive)
    code, text = checked(repository)
    assert code == 1, text
    sh("git worktree remove --force ../base && git reset -q --soft HEAD^", repository)
    assert call(["sign", str(repository / ARCHIVE), "--key", str(key)]) == 0
    code, text = checked(repository)
    assert code == 0, text


def test_the_jobs_install_what_the_readme_says_to_build():
    text = (TEMPLATE / "README.md").read_text()
    (names,) = re.findall(r"for name in (.+); do\n +uv build .*\"llmperf-\$name\" --out-dir ../results/wheels", text)
    built = {f"llmperf-{name}" for name in names.split()}
    projects = [tomllib.loads(path.read_text())["project"] for path in ROOT.glob("[!.]*/*/pyproject.toml")]
    projects += [tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"] for name in ("core", "schemas")]
    needs = {project["name"]: project.get("dependencies", []) for project in projects if project["name"] in built}
    assert set(needs) == built
    assert {need for all_of in needs.values() for need in all_of if need.startswith("llmperf")} <= built
    assert WORKFLOW.read_text().count("pip install base/wheels/*.whl") == 2


def test_the_workflow_trusts_no_pull_request():
    """Read-only token, no secrets, no event with rights of the base, no text of the event in a command."""
    text = WORKFLOW.read_text()
    workflow: dict[Any, Any] = yaml.safe_load(text)
    assert set(workflow[True]) == {"pull_request", "push"}  # YAML reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow["jobs"]["check"]
    assert "pull_request_target" not in text
    assert "secrets." not in text
    assert not [command for job in workflow["jobs"] for command in steps(job) if "${{" in command]
    checkouts = [
        step for job in workflow["jobs"].values() for step in job["steps"] if "checkout" in step.get("uses", "")
    ]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    commands = " ".join(steps("check"))
    assert "base/ci/check.py" in commands
    assert "pull/ci" not in commands

"""Requirements that are not met, and the commands that mend an installation."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from llmperf.cli.main import call
from llmperf.errors import PluginError
from llmperf.files.user_files import read_toml
from llmperf.plugins import mending
from llmperf.plugins.discovery import find
from llmperf.plugins.loading import Plugins, load_for
from llmperf.plugins.mending import install_own, pip_command
from llmperf.plugins.own_packages import project_packages, published
from llmperf.plugins.requirements import unmet_requirements

EMPTY = "from llmperf import hookimpl\n"
CLONE = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def uv_on_path(monkeypatch):
    """The user's PATH has uv, wherever the tests have it from."""
    monkeypatch.setattr(mending, "which", lambda name: "/usr/bin/uv")


def came_from(folder: Path, distribution: str, document: dict[str, object]) -> None:
    """Note where a distribution was installed from, as an installer does."""
    module = distribution.replace("-", "_")
    (folder / f"{module}-1.0.dist-info" / "direct_url.json").write_text(json.dumps(document))


def diagnosis(capsys, name: str) -> dict[str, str]:
    """What `doctor` says of one plugin."""
    assert call(["doctor", "--json"]) == 1
    return next(one for one in json.loads(capsys.readouterr().out) if one["subject"].endswith(f" {name}"))


@pytest.mark.parametrize(
    ("requirement", "unmet"),
    [
        ("msgspec", []),
        ("msgspec>=0.1", []),
        ("msgspec>=99", ["msgspec>=99"]),
        ("msgspec~=99.2", ["msgspec~=99.2"]),
        ("msgspec<0.1", ["msgspec<0.1"]),
        ("msgspec<99,>=0.1", []),
        ("msgspec >= 0.1, < 0.2", ["msgspec<0.2,>=0.1"]),
        ("msgspec<99,>=98", ["msgspec<99,>=98"]),
        ("msgspec!=0.0.1", []),
        ("llmperf-core~=99.0", ["llmperf-core~=99.0"]),
        ("beads>=2 ; python_version >= '3'", ["beads>=2"]),
        ("beads>=2 ; python_version < '3'", []),
        ("beads>=2 ; sys_platform == 'win32'", []),
        ("beads ; extra == 'fast'", []),
        ("Llmperf_Rods", ["wires~=1.0"]),
        ("llmperf-rods[fast]", ["wires~=1.0", "wheels>=3"]),
    ],
)
def test_requirements_are_held_against_what_is_installed(install, requirement, unmet):
    install("llmperf-acme", "acme", EMPTY, requires=(requirement,))
    install("llmperf-rods", "rods", "", requires=("wires~=1.0", "wheels>=3 ; extra == 'fast'"))
    assert [one.requirement for one in unmet_requirements("llmperf-acme")] == unmet


@pytest.mark.slow
def test_a_version_that_does_not_fit_is_shown_wherever_plugins_are(install, ran, capsys, tmp_path):
    install(
        "llmperf-acme", "acme", EMPTY, role="framework", requires=("msgspec<0.1", "beads>=2 ; python_version >= '3'")
    )
    needs = "needs msgspec<0.1 (found "
    states = {one["name"]: one["state"] for one in json.loads(ran(0, "plugins", "--json").out)}
    assert needs in states["acme"]
    assert needs in diagnosis(capsys, "acme")["message"]
    assert diagnosis(capsys, "acme")["mend"] == "uv pip install 'msgspec<0.1' 'beads>=2'"
    assert f"framework 'acme' (llmperf-acme) {needs}" in ran(2, "plan", "default", "--framework", "acme").out
    checks = {one["check"]: one for one in json.loads(ran(1, "check-plugin", "acme", "--fast", "--json").out)["checks"]}
    assert checks["requirements-are-met"]["state"] == "failed"
    assert "msgspec<0.1" in checks["requirements-are-met"]["message"]


def test_a_vendor_and_an_extension_of_another_core_are_not_used(install, ran):
    vendor = EMPTY + PROBE.format(name="acme", kind="cpu")
    install("llmperf-acme", "acme", vendor, requires=("llmperf-core~=99.0",))
    install("llmperf-extra", "extra", EMPTY, role="extension", requires=("llmperf-core~=99.0",))
    shown = ran(2, "plan", "default", "--vendor", "acme")
    assert "--vendor" in shown.out
    assert "vendor 'acme' (llmperf-acme) needs llmperf-core~=99.0 (found 0.1.0)" in shown.out
    assert "left out: extension 'extra' (llmperf-extra) needs llmperf-core~=99.0 (found 0.1.0)" in shown.err
    assert "pip install llmperf-core" not in shown.out + shown.err
    assert load_for(None, None).left_out


PROBE = """
@hookimpl
def llmperf_probe():
    from llmperf.types import DeviceInfo, Offers, Probe
    offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    device = DeviceInfo(index=0, model="Acme {name}", memory_bytes=2**34, kind={kind!r})
    return Probe(vendor={name!r}, devices=(device,), offers=offers)
"""


def test_an_optional_hook_of_another_core_is_passed_over(install, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    optional = EMPTY + "@hookimpl(optionalhook=True)\ndef llmperf_observe_run(run, colour):\n    return []\n"
    install("llmperf-acme", "acme", optional + PROBE.format(name="acme", kind="cpu"))
    assert Plugins([find("vendor", "acme")]).answer("llmperf_probe", object)
    call(["check-plugin", "acme", "--fast", "--json"])
    checks = {one["check"]: one["state"] for one in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["hooks-are-spelled-right"] == "passed"


def test_an_unknown_hook_says_what_would_know_it(install):
    source = EMPTY + "@hookimpl\ndef llmperf_rerun(run):\n    return []\n"
    install("llmperf-acme", "acme", source)
    with pytest.raises(
        PluginError, match=r"if a newer llmperf-core has it, upgrade that, or mark .* optionalhook=True"
    ):
        Plugins([find("vendor", "acme")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "mend"),
    [
        ({"url": "file://{here}/a%20b", "dir_info": {"editable": True}}, "uv pip install --reinstall -e '{here}/a b'"),
        ({"url": "file://{here}/a%20b", "dir_info": {}}, "uv pip install --reinstall '{here}/a b'"),
        (
            {
                "url": "https://acme.example/a.git",
                "vcs_info": {"vcs": "git", "commit_id": "1", "requested_revision": "v2"},
            },
            "uv pip install --reinstall git+https://acme.example/a.git@v2",
        ),
        (
            {"url": "https://acme.example/a-1.whl", "archive_info": {}},
            "uv pip install --reinstall https://acme.example/a-1.whl",
        ),
        (None, "uv pip install --upgrade --reinstall llmperf-acme"),
    ],
    ids=["editable", "folder", "repository", "file", "index"],
)
def test_a_broken_plugin_is_installed_again_from_where_it_came(install, capsys, tmp_path, document, mend):
    install("llmperf-acme", "acme", "raise RuntimeError('no licence')")
    (tmp_path / "a b").mkdir()
    if document is not None:
        came_from(tmp_path, "llmperf-acme", document | {"url": document["url"].format(here=tmp_path)})
    found = diagnosis(capsys, "acme")
    assert found["mend"] == mend.format(here=tmp_path)
    assert shlex.split(found["mend"])[:3] == ["uv", "pip", "install"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "folder", "told"),
    [
        ("raise RuntimeError('gone')", "/gone", "its folder {}/gone is gone; install it again from where it is now"),
        (EMPTY + "@hookimpl\ndef llmperf_prob():\n    return None\n", "", "did you mean 'llmperf_probe'?"),
    ],
    ids=["its folder was moved", "it has a mistake"],
)
def test_a_plugin_that_installing_it_again_does_not_mend(install, capsys, tmp_path, source, folder, told):
    """Nobody but the user knows the folder."""
    install("llmperf-acme", "acme", source)
    came_from(tmp_path, "llmperf-acme", {"url": f"file://{tmp_path}{folder}", "dir_info": {"editable": True}})
    found = diagnosis(capsys, "acme")
    assert told.format(tmp_path) in found["message"]
    assert found["mend"] is None


CORE_ALONE = ("llmperf-core", "llmperf-schemas", "llmperf-cpu")


@pytest.fixture
def elsewhere(monkeypatch):
    """An environment `/elsewhere` with spaces in its path, that has only the core and was installed from the clone."""
    whole = mending.installed_distribution
    monkeypatch.setattr(mending, "installed_distribution", lambda name: whole(name) if name in CORE_ALONE else None)
    monkeypatch.setattr(mending, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", "/else where")
    monkeypatch.setattr(sys, "executable", "/else where/bin/python")


def test_in_the_environment_of_the_clone_uv_installs_all_distributions(elsewhere, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(CLONE / ".venv"))
    sync = f"sync --inexact --project {shlex.quote(str(CLONE))}"
    assert install_own("llmperf-html") == f"uv {sync}"
    for found in (None, f"{CLONE}/.uv/bin/uv"):  # only ./dev and what it starts find the second
        monkeypatch.setattr(mending, "which", lambda name, found=found: found)
        assert install_own("llmperf-html") == f"{CLONE}/dev uv {sync}"


def test_in_another_environment_only_the_missing_distributions_are_installed(elsewhere, monkeypatch):
    python = "'/else where/bin/python'"
    assert install_own("llmperf-tracking") == f"uv pip install --python {python} {CLONE}/extensions/tracking"
    monkeypatch.setattr(mending, "find_spec", lambda name: object())
    assert install_own("llmperf-tracking") == f"{python} -m pip install {CLONE}/extensions/tracking"
    both = " ".join(f"{CLONE}/frameworks/{name}" for name in ("pytorch", "kit", "zero"))
    assert install_own("llmperf-zero") == f"{python} -m pip install {both}"
    monkeypatch.setattr(mending, "source", lambda distribution: None)
    assert install_own("llmperf-tracking") == f"{python} -m pip install ./extensions/tracking  # in a clone of llmperf"


def test_a_package_of_an_index_is_installed_by_what_the_users_shell_finds(elsewhere, monkeypatch):
    install, again = ("install", "beads>=2"), ("install", "--reinstall", "-e", "a b")
    assert pip_command(*install) == "uv pip install 'beads>=2'"
    monkeypatch.setattr(mending, "which", lambda name: f"{CLONE}/.uv/bin/uv")
    python = "'/else where/bin/python'"
    assert pip_command(*install) == f"{CLONE}/dev uv pip install --python {python} 'beads>=2'"
    monkeypatch.setattr(mending, "find_spec", lambda name: object())
    assert pip_command(*install) == f"{python} -m pip install 'beads>=2'"
    assert pip_command(*again) == f"{python} -m pip install --force-reinstall -e 'a b'"


def test_folders_and_requirements_of_the_projects_distributions_are_those_of_the_clone():
    packages = project_packages()
    folders = {path.parent for path in CLONE.glob("*/pyproject.toml")} | {
        path.parent
        for group in ("vendors", "frameworks", "launchers", "extensions")
        for path in CLONE.glob(f"{group}/*/*.toml")
    }
    assert {CLONE / folder for folder in packages["folders"].values()} == folders
    assert set(published().values()) <= set(packages["folders"])
    for name, folder in packages["folders"].items():
        project = read_toml(CLONE / folder / "pyproject.toml")["project"]
        needed = {text for text in project["dependencies"] if text.startswith("llmperf-")}
        assert project["name"] == name
        assert needed - {"llmperf-core", "llmperf-schemas"} == set(packages["needs"].get(name, ()))


@pytest.mark.slow
def test_a_newer_llmperf_is_asked_for_where_the_installed_one_does_not_fit(install, capsys):
    install("llmperf-acme", "acme", EMPTY, requires=("llmperf-core~=99.0",))
    mend = diagnosis(capsys, "acme")["mend"]
    assert mend == f"{install_own('llmperf-core')}  # after updating {shlex.quote(str(CLONE))} to a version that fits"


@pytest.mark.slow
def test_no_command_names_a_distribution_that_may_be_on_no_index(install, capsys):
    install("llmperf-acme", "acme", EMPTY, requires=("llmperf-acme-base>=2", "llmperf-zero>=99"))
    found = diagnosis(capsys, "acme")
    assert found["mend"] is None
    assert "llmperf-acme-base>=2" in found["message"]


def test_a_cpu_that_several_vendors_see_is_measured_by_the_projects_own(install, ran, capsys):
    install("aaa-acme", "aaa", EMPTY + PROBE.format(name="aaa", kind="cpu"))
    assert json.loads(ran(0, "plan", "default", "--json").out)["plan"]["vendor"] == "cpu"
    assert call(["plan", "default", "--vendor", "aaa", "--framework", "pytorch", "--devices", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["vendor"] == "aaa"


@pytest.mark.parametrize("kind", ["cpu", "accelerator"])
def test_two_vendors_that_see_the_same_kind_are_a_choice_of_the_users(install, capsys, monkeypatch, kind):
    install("aaa-acme", "aaa", EMPTY + PROBE.format(name="aaa", kind=kind))
    install("zzz-acme", "zzz", EMPTY + PROBE.format(name="zzz", kind=kind))
    monkeypatch.setattr("llmperf.planning.vendors.names", lambda role: ["aaa", "zzz"])
    assert call(["plan", "default"]) == 2
    line = "llmperf: several vendors have devices here: aaa, zzz; choose one with --vendor\n"
    assert capsys.readouterr().err == line


@pytest.mark.slow
def test_a_missing_packaging_is_named(install, monkeypatch, capsys):
    install("llmperf-acme", "acme", EMPTY, requires=("msgspec~=0.1",))
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    assert diagnosis(capsys, "acme")["message"] == "llmperf-acme needs packaging (not installed)"

"""`llmperf.toml`: where it is found, and one line for each mistake in it."""

import json
import os
import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import llmperf
import pytest
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.planning import environment_report, nodes
from llmperf.planning.states import Request, Selection, Site
from llmperf.planning.user_config import Tables, UserConfig, user_config
from llmperf.running import measure
from llmperf.types import Interpreter, RunChoice

WHOLE = Path(__file__).with_name("whole_config.toml").read_text()


def test_all_tables_are_read(tmp_path):
    (tmp_path / "llmperf.toml").write_text(WHOLE)
    config = user_config(tmp_path)
    assert config.path == tmp_path / "llmperf.toml"
    assert config.tables.default.framework == "pytorch"
    assert config.tables.launchers == {"slurm": {"partition": "gpu"}}
    assert config.host_names("lab, c") == ("a", "b", "c")


def test_the_nearest_file_upward_wins_then_the_users_own(tmp_path, monkeypatch):
    home, inner = tmp_path / "config", tmp_path / "project" / "deep" / "deeper"
    inner.mkdir(parents=True)
    (home / "llmperf").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    assert user_config(inner) == UserConfig()
    (home / "llmperf" / "llmperf.toml").write_text('[hosts]\nlab = ["home"]\n')
    assert user_config(inner).host_names("lab") == ("home",)
    (tmp_path / "project" / "llmperf.toml").write_text('[hosts]\nlab = ["project"]\n')
    assert user_config(inner).host_names("lab") == ("project",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[environmnts]\n", "unknown key 'environmnts'; did you mean 'environments'?"),
        ("[default]\nvendr = 'cpu'\n", "default: unknown key 'vendr'; did you mean 'vendor'?"),
        ("[environments]\na = 1\n", "Expected `str`, got `int` - at `$.environments"),
        ("[hosts]\na = 'b'\n", "Expected `array`, got `str` - at `$.hosts"),
        ("[default]\nenvironment = 'a'\n", "default.environment: unknown environment 'a'"),
        ("hosts = [", "not valid TOML"),
    ],
)
def test_each_mistake_is_one_line_that_names_the_file(tmp_path, text, message, one_line):
    (tmp_path / "llmperf.toml").write_text(text)
    with one_line(message, start=str(tmp_path / "llmperf.toml")):
        user_config(tmp_path)


def test_a_host_named_twice_is_refused():
    with pytest.raises(UserError, match="'a' is named twice"):
        UserConfig().host_names("a,b,a")


def test_the_python_of_other_nodes_need_not_exist_here(tmp_path: Path) -> None:
    config = UserConfig(path=tmp_path / "llmperf.toml", tables=Tables(environments={"image": "/no/python"}))
    assert config.python("/no/python", here=False) == (Path("/no/python"), None)
    assert config.python("image", here=False) == (Path("/no/python"), "image")
    with pytest.raises(UserError, match=r"environments\.image: expected a Python executable"):
        config.python("image")


@pytest.mark.parametrize("mode", [0o666, 0o662])
def test_a_file_that_others_can_write_is_refused(tmp_path, mode):
    path = tmp_path / "llmperf.toml"
    path.write_text(WHOLE)
    path.chmod(mode)
    with pytest.raises(UserError, match=rf"only its owner can write, found mode {mode:o}; use chmod go-w {path}"):
        user_config(tmp_path / "project")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("link", [False, True])
def test_a_file_of_another_user_above_the_working_directory_is_refused(tmp_path, link):
    path = tmp_path / "llmperf.toml"
    if link:
        (tmp_path / "own.toml").write_text(WHOLE)
        path.symlink_to("own.toml")
    else:
        path.write_text(WHOLE)
    os.chown(path, 4321, 4321, follow_symlinks=False)
    with pytest.raises(UserError, match=r"llmperf.toml: expected a file of this user .* or root, found user ID 4321$"):
        user_config(tmp_path / "project")


def test_a_group_of_several_users_may_not_write_the_file(tmp_path, monkeypatch):
    import grp
    import pwd

    path = tmp_path / "llmperf.toml"
    path.write_text(WHOLE)
    path.chmod(0o664)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(("ann", "x", 1, 1, "", "/", "/")))
    monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group(("ann", "x", 1, [])))
    assert user_config(tmp_path).tables.default.vendor == "cpu"
    monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group(("lab", "x", 1, ["ann", "bob"])))
    with pytest.raises(UserError, match="only its owner can write, found mode 664"):
        user_config(tmp_path)


SMALL = ["--set", "steps=8", "--set", "contract.warmup_steps=2", "--set", "model=llama_tiny", "--set", "seq_len=16"]
STUB = ["default", "--vendor", "stub", "--framework", "stub", *SMALL]


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interpreter(folder: Path, script: str, name: str = "python") -> Path:
    """A stand-in for a Python executable."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def report(**changes) -> dict:
    """What an environment with the stub plugins reports."""
    from llmperf_stub.vendor import llmperf_probe

    plugin = {"distribution": "llmperf-stub", "version": "1.0", "problem": None}
    known = {
        "llmperf_version": llmperf.__version__,
        "python_version": "3.12.3",
        "plugins": [{"role": role, "name": "stub", **plugin} for role in ("vendor", "framework")],
        "probes": [json_files.builtins(llmperf_probe())],
        "left_out": [],
    }
    return known | changes


def reporting(folder: Path, **changes) -> Path:
    """A stand-in for a Python that reports this."""
    (folder / "report.json").write_text(json.dumps(report(**changes), separators=(",", ":")) + "\n")
    return interpreter(folder, f"echo a banner; cat {folder / 'report.json'}")


def test_the_plan_names_the_interpreter_of_the_ranks(stub_site, in_folder, ran):
    path = reporting(in_folder)
    plan = json.loads(ran(0, "plan", *STUB, "--python", path, "--json").out)["plan"]
    assert plan["interpreter"] == {"path": str(path), "version": "3.12.3", "environment": None}
    assert plan["worker"]["agent"][0] == sys.executable  # the agent is llmperf's own on this machine
    assert f"{path}, 3.12.3" in ran(0, "plan", *STUB, "--python", path).out


def test_an_environment_is_named_in_the_users_file(stub_site, in_folder, ran):
    path = reporting(in_folder)
    (in_folder / "llmperf.toml").write_text('[environments]\nvendor = "./python"\n[default]\nenvironment = "vendor"\n')
    (in_folder / "below").mkdir()
    os.chdir(in_folder / "below")  # found in the folder above
    for words in (["--python", "vendor"], []):
        found = json.loads(ran(0, "plan", *STUB, "--json", *words).out)["plan"]["interpreter"]
        assert found == {"path": str(path), "version": "3.12.3", "environment": "vendor"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plugins": []}, "framework 'stub' is not installed; install llmperf-stub there"),
        ({"llmperf_version": "9.9.9"}, f"has llmperf-core 9.9.9, expected {llmperf.__version__} as here"),
        ({"probes": []}, "vendor 'stub' sees no device here"),
    ],
)
def test_what_the_environment_lacks_is_refused(stub_site, in_folder, ran, changes, message):
    path = reporting(in_folder, **changes)
    assert message in ran(2, "run", *STUB, "--python", path).err
    assert not (in_folder / "runs").exists()


def test_each_problem_has_a_line(stub_site, in_folder, ran):
    plugins = [
        {"role": "vendor", "name": "stub", "distribution": "llmperf-stub", "version": "1.1", "problem": None},
        {"role": "framework", "name": "stub", "distribution": "llmperf-stub", "version": "1.0",
         "problem": "framework 'stub' (llmperf-stub) needs tensors>=2 (not installed)"},
    ]  # fmt: skip
    path = reporting(in_folder, plugins=plugins)
    lines = ran(2, "run", *STUB, "--python", path).err.splitlines()
    assert sum("expected llmperf-stub 1.0 as here, found llmperf-stub 1.1" in line for line in lines) == 1
    assert sum("needs tensors>=2 (not installed)" in line for line in lines) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'no such module' >&2; exit 3", "no such module (exit status 3)"),
        ("exit 0", "no output (exit status 0)"),
        ("echo '[]'", "[] (exit status 0)"),
        ("sleep 20", "did not answer within 0.5 s"),
    ],
)
def test_an_interpreter_that_does_not_report_is_refused_in_one_line(
    stub_site, in_folder, ran, monkeypatch, script, message
):
    monkeypatch.setattr(environment_report, "LIMIT_SECONDS", 0.5 if "sleep" in script else 60.0)
    path = interpreter(in_folder, script)
    (line,) = ran(2, "plan", *STUB, "--python", path).err.splitlines()
    assert f"{path}: " in line
    assert message in line


def test_a_real_interpreter_without_llmperf_is_refused(stub_site, in_folder, ran, monkeypatch):
    path = interpreter(in_folder, f'exec {sys.executable} -I -S "$@"')
    assert "llmperf-core is not installed" in ran(2, "plan", *STUB, "--python", path).err


@pytest.mark.slow
def test_this_interpreter_reports_and_runs(stub_site, in_folder, ran, monkeypatch):
    (in_folder / "llmperf.py").write_text("raise SystemExit('imported from the current folder')\n")
    path = interpreter(in_folder, f'LLMPERF_OTHER=1 exec {sys.executable} "$@"')
    (in_folder / "llmperf.toml").write_text(f'[environments]\nother = "{path}"\n')
    result = json.loads(ran(0, "run", *STUB, "--python", "other", "--json").out)["result"]
    assert (result["status"], result["software"]["worker_environment"]) == ("complete", "other")
    assert result["software"]["python"] == platform.python_version()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--python", "./none"], "--python: expected a Python executable or the folder of an environment, found no "),
        (["--python", "vendr"], "unknown environment 'vendr'; did you mean 'vendor'?"),
        (["--container-image", "a:1"], "--container-image a:1: launcher 'local' starts no containers; "),
    ],
)
def test_a_wrong_name_or_path_is_refused(stub_site, in_folder, ran, words, message):
    (in_folder / "llmperf.toml").write_text('[environments]\nvendor = "/opt/vendor/bin/python"\n')
    assert message in ran(2, "plan", *STUB, *words).err


def test_a_launcher_is_asked_for_nodes_once_for_runs_that_need_the_same(monkeypatch):
    events = []

    def reach(site, count):
        events.append(f"ask for {count}")
        return SimpleNamespace(probe=count, close=lambda: events.append(f"give back {count}"))

    monkeypatch.setattr(measure, "reach", reach)
    outcome = SimpleNamespace(plan=None, problems=())
    monkeypatch.setattr(measure, "plan_on", lambda machine, *_: SimpleNamespace(**vars(outcome), machine=machine))
    site = Site(launcher="ssh", launcher_options={"queue": "a"})
    series = measure.Series(Request(Selection("default"), site), print)
    for count in (1, 1, 2, 2):
        assert series.plan(RunChoice(case="default", settings={"tuning.nodes": count})).probe == count
    series.close()
    series.close()
    assert events == ["ask for 1", "give back 1", "ask for 2", "give back 2"]


def test_an_old_python_of_the_ranks_is_not_given_an_option_that_it_lacks():
    old, new = (Interpreter(path="/opt/python", version=version) for version in ("3.10.4", "3.11.0"))
    command = ("{python}", "-P", "-m", "train")
    assert nodes.by_interpreter(command, old) == ("{python}", "-m", "train")
    assert nodes.by_interpreter(command, new) == nodes.by_interpreter(command, None) == command

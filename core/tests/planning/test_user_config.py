"""`llmperf.toml`: where it is found, and one line for each mistake in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from llmperf.errors import UserError
from llmperf.planning.user_config import Tables, UserConfig, user_config

WHOLE = """
[environments]
paddle = "~/paddle/bin/python"

[default]
vendor = "cpu"
framework = "pytorch"
environment = "paddle"

[hosts]
lab = ["a", "b"]

[launchers.slurm]
partition = "gpu"
"""


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
def test_each_mistake_is_one_line_that_names_the_file(tmp_path, text, message):
    (tmp_path / "llmperf.toml").write_text(text)
    with pytest.raises(UserError) as caught:
        user_config(tmp_path)
    assert str(caught.value).startswith(str(tmp_path / "llmperf.toml"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


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

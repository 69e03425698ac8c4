"""`llmperf.toml`: where it is found, and one line for each mistake in it."""

from __future__ import annotations

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
        ("[prices.'A1']\nper_hour = 1\n", "unknown key 'prices'"),
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

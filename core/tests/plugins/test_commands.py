"""Commands that other packages add to `llmperf`."""

import json

import pytest
from llmperf.cli import main
from llmperf.cli.main import call
from llmperf.plugins.own_packages import project_packages
from llmperf.plugins.packaged_commands import packaged_commands

HELLO = '"""Greet somebody."""\nimport click\n\n@click.command("hello")\n@click.argument("name")\ndef command(name):\n'
HELLO += '    """Greet NAME."""\n    click.echo(f"hello {name}")\n'


@pytest.fixture(autouse=True)
def fresh():
    main.extra_commands.cache_clear()
    yield
    main.extra_commands.cache_clear()


def test_a_packages_command_runs_and_is_in_the_help_and_the_list(install, ran):
    install("llmperf-hello", "hello", HELLO, role="command", version="v1")
    assert ran(0, "hello", "world").out == "hello world\n"
    assert "hello         Greet somebody." in ran(0, "--help").out
    rows = {row["distribution"]: row for row in json.loads(ran(0, "plugins", "--json").out)}
    hello = rows["llmperf-hello"]
    assert (hello["role"], hello["name"], hello["state"]) == ("command", "hello", "ok")


def test_help_does_not_import_a_packages_command(install, ran):
    install("llmperf-hello", "hello", '"""Greet somebody."""\nraise SystemExit(3)\n', role="command")
    assert "Greet somebody." in ran(0, "--help").out


def test_a_command_of_two_packages_names_both(install, ran, capsys, monkeypatch):
    install("llmperf-hello", "hello", HELLO, role="command")
    install("llmperf-salute", "hello", HELLO, role="command")
    assert call(["hello", "world"]) != 0
    claim = "claimed by llmperf-hello and llmperf-salute; uninstall one"
    assert f"command 'hello' is {claim}" in capsys.readouterr().err
    monkeypatch.setenv("COLUMNS", "200")
    assert claim in " ".join(ran(0, "--help").out.split())
    states = {row["distribution"]: row["state"] for row in json.loads(ran(0, "plugins", "--json").out)}
    assert states["llmperf-hello"] == states["llmperf-salute"] == f"broken: {claim}"


@pytest.mark.slow
def test_a_command_of_the_core_cannot_be_replaced(install, ran):
    install("llmperf-mine", "plan", HELLO, role="command")
    assert "plan" not in packaged_commands(without=main.COMMANDS)
    problem = "not used: `llmperf plan` is a command of llmperf-core"
    planned = ran(0, "plan", "default", "--framework", "pytorch", "--devices", "1").err
    assert planned == f"llmperf: warning: command 'plan' of llmperf-mine: {problem}\n"
    assert f"broken: {problem}" in ran(0, "plugins").out
    assert f"command plan of llmperf-mine: {problem}" in ran(1, "doctor").out


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere\n", "cannot import llmperf_hello:command: ModuleNotFoundError"),
        ("command = 1\n", "llmperf_hello:command: expected a click.Command, found int"),
    ],
)
def test_a_broken_command_names_its_package(install, capsys, source, message):
    install("llmperf-hello", "hello", source, role="command")
    assert call(["hello"]) != 0
    line = capsys.readouterr().err
    assert "command 'hello' (llmperf-hello): " in line
    assert message in line


def test_the_command_of_a_missing_package_says_which_one(monkeypatch, ran):
    monkeypatch.setattr(main, "extra_commands", dict)
    for command, package in project_packages()["commands"].items():
        assert f"{command} is a command of {package}; install it with: " in ran(2, command, "cpu").err


def test_a_misspelt_command_suggests_the_nearest(ran):
    assert "did you mean 'import'?" in ran(2, "imprt").err


def test_a_command_that_raises_names_its_package_and_shows_its_traceback(install, ran):
    source = HELLO.replace("    click.echo", "    raise KeyError(name)\n    click.echo")
    install("llmperf-hello", "hello", source, role="command")
    first, *rest = ran(1, "hello", "world").err.splitlines()
    assert first == "llmperf: command 'hello' (llmperf-hello) raised KeyError: 'world'; this is a bug of llmperf-hello"
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "KeyError: 'world'"
    assert "llmperf_hello.py" in rest[1]
    assert "click" not in "\n".join(rest)
    assert "program.py" not in "\n".join(rest)

"""All commands have the same names for the same options."""

import json

import click
from llmperf.cli.main import call, cli

NO_JSON = {"completion", "watch"}
"""A script for a shell, and the output of another program."""
NO_LANG = NO_JSON | {
    "check",
    "check-plugin",
    "convert",
    "doctor",
    "fuzz",
    "issue",
    "new",
    "plugins",
    "recover",
    "sign",
}
"""Those, and commands that print messages about files and packages, not figures."""


def commands(group, context):
    """Each command of a group and of those inside, with its name."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, context)
        else:
            yield name, command


def test_every_command_prints_json_and_writes_to_out():
    found = dict(commands(cli, click.Context(cli)))
    options = {name: {text for one in command.params for text in one.opts} for name, command in found.items()}
    assert {name for name, texts in options.items() if "--json" not in texts} == NO_JSON
    assert {name for name, texts in options.items() if "--lang" not in texts} == NO_LANG
    assert not [name for name, texts in options.items() if "--output" in texts or ("-o" in texts) != ("--out" in texts)]


def test_what_is_written_is_said_as_json(tmp_path, ran, capsys):
    made = json.loads(ran(0, "new", "vendor", "acme", "--out", tmp_path, "--json").out)
    assert (tmp_path / "llmperf-acme" / made["files"][0]).exists()
    assert made["next"][0]["command"]
    assert call(["challenge", "issue", "--within", "2h", "-o", str(tmp_path / "c.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"challenge": str(tmp_path / "c.json")}

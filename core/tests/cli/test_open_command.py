"""Options that other people's packages add to `run`, `plan` and `validate`."""

import json

import pytest
from llmperf.cli import open_command
from llmperf.cli.main import call
from llmperf.plugins.own_packages import project_packages

NOTES = '''
"""Adds `--quick` and `--note` to `llmperf run`; the observer keeps the note in the run folder."""
import click
from llmperf import hookimpl
from llmperf.types import CommandOptions

noted = []


def begin(run):
    if run.values["quick"]:
        run.values["settings"] += ("steps=4", "warmup_steps=1", "seq_len=32")
    if run.values["note"] is not None:
        if not run.given("note") or run.words[0] != "run":
            raise AssertionError(run.words)
        if not run.values["note"]:
            raise click.UsageError("--note: expected a text.")
        noted[:] = [run.values["note"]]


class Keeper:
    name = "notes"
    def started(self, plan, folder):
        if noted:
            (folder / "note.txt").write_text(noted[0])
    def progress(self, progress): pass
    def steps(self, steps): pass
    def ended(self, result, folder): pass


@hookimpl
def llmperf_observers():
    return [Keeper()]


@hookimpl
def llmperf_command_options(command):
    if command == "run":
        note = click.Option(["--note"], metavar="TEXT", help="Keep a note in the run folder.")
        quick = click.Option(["--quick/--whole"], help="Run four steps.")
        yield CommandOptions(options=[note, quick], begin=begin, examples="  llmperf run --note first")
'''

MANY = '''
"""Runs the same case with several micro batches, in place of `llmperf run`."""
from pathlib import Path
import click
from llmperf import hookimpl, print_json
from llmperf.types import CommandOptions


def begin(run):
    if run.values["micro_batches"] is None:
        return None
    rates = {}
    with run.series() as series:
        for number in map(int, run.values["micro_batches"].split(",")):
            import dataclasses
            settings = {**run.choice.settings, "tuning.micro_batch": number}
            choice = dataclasses.replace(run.choice, settings=settings)
            looked = series.plan(choice)
            if looked.problems:
                rates[number] = looked.problems[0].code
                continue
            plan = series.prepare(choice)
            result = series.run(plan, Path("many"))
            rates[number] = [plan.run_id, result.run_id, result.status]
            assert series.recover(Path("many") / plan.run_id).run_id == plan.run_id
    print_json(rates)
    return 7


@hookimpl
def llmperf_command_options(command):
    options = [click.Option(["--micro-batches"])] if command == "run" else []
    return [CommandOptions(options=options, begin=begin)] if options else []
'''

STUB = ["--vendor", "stub", "--framework", "stub", "--devices", "1"]
SHORT = ["--set", "steps=4", "--set", "warmup_steps=1", "--set", "seq_len=32"]


def adding(option, begin="lambda called: None", command="run"):
    """A plugin with one option."""
    return f"""
import click
from llmperf import hookimpl
from llmperf.types import CommandOptions

@hookimpl
def llmperf_command_options(command):
    return [CommandOptions(options=[click.Option({option!r}, is_flag=True)], begin={begin})] * (command == {command!r})
"""


@pytest.mark.slow
def test_an_outsiders_options_change_a_run_and_are_read_back(stub_site, install, tmp_path, monkeypatch, capsys):
    install("acme-notes", "notes", NOTES, role="extension")
    monkeypatch.chdir(tmp_path)
    assert call(["run", "default", *STUB, "--quick", "--note", "first of all", "--json"]) == 0
    folder = tmp_path / json.loads(capsys.readouterr().out)["folder"]
    assert json.loads((folder / "plan.json").read_text())["spec"]["contract"]["steps"] == 4
    assert (folder / "note.txt").read_text() == "first of all"


@pytest.mark.slow
def test_an_outsiders_option_plans_and_starts_runs_in_place_of_the_command(
    stub_site, install, tmp_path, monkeypatch, capsys
):
    install("acme-many", "many", MANY, role="extension")
    monkeypatch.chdir(tmp_path)
    words = ["run", "default", *STUB, *SHORT, "--set", "global_batch=4", "--micro-batches", "2,3"]
    assert call(words) == 7
    rates = json.loads(capsys.readouterr().out)
    planned, ran, status = rates["2"]
    assert (planned, status) == (ran, "complete")
    assert (tmp_path / "many" / ran / "result.json").exists()
    assert rates["3"] == "batch_not_divisible"


def test_added_options_are_in_the_help_and_wrong_values_are_bad_input(install, ran):
    install("acme-notes", "notes", NOTES, role="extension")
    shown = ran(0, "run", "--help").out
    assert "--note TEXT" in shown
    assert shown.index("llmperf run\n") < shown.index("llmperf run --note first\n")
    assert "--note" not in ran(0, "plan", "--help").out
    assert "llmperf: --note: expected a text." in ran(2, "run", "--note", "").err
    assert "'--note'" in ran(2, "run", "--not", "x").err


@pytest.mark.parametrize("command", ["run", "plan", "validate"])
def test_an_option_can_do_the_whole_command(install, ran, tmp_path, command):
    install("acme-stop", "stop", adding(["--stop"], "lambda called: 9 if called.values['stop'] else None", command),
            role="extension")  # fmt: skip
    assert ran(9, command, tmp_path, "--stop").out == ""


def test_an_option_of_two_packages_names_both(install, capsys):
    install("acme-one", "one", adding(["--fast"]), role="extension")
    install("acme-two", "two", adding(["--quick", "fast"]), role="extension")
    assert call(["run", "--dry-run"]) != 0
    assert (
        "extension 'two' (acme-two): llmperf_command_options: fast of run is an option of acme-one already"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (adding(["--devices"]), "--devices of run is an option of llmperf-core already"),
        (adding(["--fast"], "lambda called: called.nothing"), "begin raised AttributeError: 'CalledRun' object has no"),
        (adding(["--fast"]).replace("[CommandOptions(", "[no_such_thing("), "llmperf_command_options raised NameError"),
        (adding(["--fast"]).replace("CommandOptions(options=", "dict(options="), "expected CommandOptions of"),
    ],
)
def test_faults_of_an_extension_name_it(install, capsys, source, message):
    install("acme-fast", "fast", source, role="extension")
    code = call(["run", "default", "--vendor", "cpu", "--devices", "1", "--dry-run"])
    shown = capsys.readouterr().err
    assert "extension 'fast' (acme-fast)" in shown
    assert message in shown
    assert code == (0 if shown.startswith("left out:") else 2)


def test_an_option_of_an_absent_package_names_the_package(monkeypatch, ran):
    monkeypatch.setattr(open_command, "added_options", lambda command, own: open_command.Added([], []))
    for command, packages in project_packages()["options"].items():
        for option, package in packages.items():
            shown = ran(2, command, *option.split(), "x").err
            assert shown.startswith(f"llmperf: {option} is ")
            assert f" of {package}; install it with: " in shown
            assert shown.count("\n") == 1
    assert "No such option" in ran(2, "plan", "--matrix", "x.toml").err


def test_an_option_of_a_broken_package_says_what_is_wrong_with_it(monkeypatch, ran):
    broken = "extension 'sweep' (llmperf-sweep) cannot be imported: ImportError: no numpy"
    monkeypatch.setattr(open_command, "added_options", lambda command, own: open_command.Added([], [broken]))
    assert ran(2, "run", "--matrix", "x.toml").err == f"llmperf: --matrix is an option of llmperf-sweep; {broken}\n"

"""`llmperf plan`, and the options that it shares with `llmperf run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from llmperf.cli.colour import warn
from llmperf.cli.completion import case_names, device_names, launcher_names, plugin_names, settings
from llmperf.cli.open_command import OpenCommand
from llmperf.cli.options import Seconds, Utf8
from llmperf.cli.output import headings_option, json_option, print_json, print_text
from llmperf.files.text import printable

if TYPE_CHECKING:
    from llmperf.planning.states import Outcome, Request
    from llmperf.types.commands import PlannedCase, PlannedTask


OPTIONS = (
    click.argument("case", default="default", type=Utf8(), shell_complete=case_names),
    click.option("--vendor", metavar="V", type=Utf8(), shell_complete=plugin_names,
                 help="Whose devices; the best here by default."),
    click.option("--framework", metavar="F", type=Utf8(), shell_complete=plugin_names,
                 help="The case's own by default."),
    click.option("--devices", metavar="N", type=click.IntRange(min=1), help="Ranks on this node."),
    click.option("--set", "settings", metavar="PATH=VALUE", type=Utf8(), multiple=True, shell_complete=settings,
                 help="Change one setting; may be repeated."),
    click.option("--overlay", "overlays", metavar="FILE", type=click.Path(), multiple=True,
                 help="Settings from an overlay file; --set takes precedence. May be repeated."),
    json_option,
)  # fmt: skip
LAUNCHING = (
    click.option("--launcher", metavar="L", default="local", show_default=True, type=Utf8(),
              shell_complete=launcher_names,
                 help="What brings the ranks to the nodes."),
    click.option("--hosts", metavar="A,B", type=Utf8(), help="Nodes for the launcher; also names from llmperf.toml."),
    click.option("--interface", metavar="NAME", type=Utf8(),
                 help="Network interface over which the nodes reach one another."),
    click.option("--container-image", metavar="IMAGE", type=Utf8(),
                 help="Container image of the nodes; see [containers] in llmperf.toml."),
    click.option("--python", metavar="PATH", type=Utf8(),
                 help="Python of the ranks: a path, or an environment's name from llmperf.toml."),
    click.option("--stall-timeout", metavar="SECONDS", type=Seconds(), default=300.0, show_default=True,
                 help="A run in which no rank finishes a step for so long, and for 3 of its steps, has hung."),
    click.option("--startup-timeout", metavar="SECONDS", type=Seconds(), default=1800.0, show_default=True,
                 help="Timeout before the first step and during evaluation."),
    click.option("--preflight/--no-preflight", default=True,
                 help="Refuse a run whose estimated memory is far beyond that of its devices."),
)  # fmt: skip
"""Of commands that start ranks, or show how they would be started."""


def case_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add CASE and its settings to a command that starts nothing."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add CASE, its settings and the options of launching to a command."""
    for option in reversed((*OPTIONS[:-1], *LAUNCHING, OPTIONS[-1])):
        function = option(function)
    return function


def request(options: dict[str, Any], on: str | None = None, **of_plugins: Any) -> Request:
    """The request for the parsed options, with what plugins add to `RunOptions`."""
    from pathlib import Path

    from llmperf.cases.settings import choices_made
    from llmperf.planning.states import Request, RunOptions, Selection, Site
    from llmperf.planning.user_config import user_config

    for line in choices_made(options["settings"]):
        click.echo(f"llmperf: note: {line}", err=True)
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # refused when the run is made
        folder = Path("/")
    config = user_config(folder)
    default = config.tables.default
    python = options["python"] or (default.environment if on is None else None)
    worker = config.python(python, options["launcher"] == "local") if python else None
    selection = Selection(
        case=options["case"],
        framework=options["framework"],
        default_framework=default.framework,
        settings=tuple(options["settings"]),
        overlays=tuple(Path(path) for path in options["overlays"]),
    )
    site = Site(
        vendor=default.vendor if options["vendor"] is None and on is None else options["vendor"],
        devices=options["devices"],
        on=on,
        launcher=options["launcher"],
        launcher_options=config.tables.launchers.get(options["launcher"], {}),
        hosts=config.host_names(options["hosts"]) if options["hosts"] else (),
        image=options["container_image"],
        containers=config.tables.containers,
        interface=options["interface"] or default.interface,
        python=None if worker is None else (str(worker[0]), worker[1]),
    )
    how = RunOptions(
        preflight=options["preflight"],
        stall_seconds=options["stall_timeout"],
        startup_seconds=options["startup_timeout"],
        **of_plugins,
    )
    return Request(selection, site, how)


def say_what_was_left_out(outcome: Outcome) -> None:
    """Print on standard error which vendor plugins and extensions were skipped, and in what nodes differ."""
    for line in (*outcome.machine.left_out, *outcome.plugins.left_out):
        click.echo(f"left out: {line}", err=True)
    unusable = any(problem.code in ("framework_unusable", "vendor_unusable") for problem in outcome.problems)
    for line in () if unusable else outcome.machine.concerns:
        warn(printable(line, " "))


PLAN_EXAMPLES = """\b
Examples:
  llmperf plan
  llmperf plan default --devices 1 --set micro_batch=4
  llmperf plan llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8
  llmperf plan baichuan2_13b_pretrain_zero --on H800:2x8 --json
"""


@click.command("plan", cls=OpenCommand, epilog=PLAN_EXAMPLES)
@request_options
@click.option("--on", metavar="MODEL:NxD", shell_complete=device_names,
              help="Plan for a machine that is not here, such as A100-SXM4-40GB:1x8.")  # fmt: skip
@headings_option
@click.pass_context
def command(ctx: click.Context, /, on: str | None, **options: Any) -> None:
    """Show what would run: layout, batch arithmetic, FLOPs, launch. Nothing is started.

    Exits with 2 if something does not fit together.
    """
    ctx.exit(show_plan(request(options, on), options["as_json"]))


def show_plan(asked: Request, as_json: bool) -> int:
    """Print the plan of a request; exit code 2 if something does not fit together."""
    from llmperf.cli.plan_text import plan_document, print_plan
    from llmperf.planning.build import plan_only
    from llmperf.planning.ready import ready
    from llmperf.planning.states import Planned
    from llmperf.running.suggestions import with_suggestions

    outcome = with_suggestions(ready(plan_only(*asked)), asked)
    say_what_was_left_out(outcome)
    if as_json:
        print_json(plan_document(outcome))
    else:
        print_plan(outcome)
    return 0 if isinstance(outcome, Planned) else 2


def _with_defaults(options: dict[str, Any]) -> dict[str, Any]:
    without_options = click.command("task")(request_options(lambda: None)).make_context("task", [])
    return {**without_options.params, **options}


def planned_case(options: dict[str, Any], on: str | None = None) -> PlannedCase:
    """The case that the options of `case_options`, or their defaults, ask for, here or on the machine of `--on`."""
    return case_of(request(_with_defaults(options), on))


NAMED_DEVICES = 2
"""Other devices that a line of settings elsewhere names."""


def case_of(asked: Request) -> PlannedCase:
    """The case of a request."""
    from llmperf.cases.library import whole_library
    from llmperf.cases.overlays import Facts, on_other_devices
    from llmperf.cases.settings import from_command_line
    from llmperf.cli.plan_text import plan_document, refusals
    from llmperf.planning.build import plan_only
    from llmperf.planning.ready import ready
    from llmperf.running.suggestions import smaller, with_suggestions
    from llmperf.types.commands import PlannedCase

    outcome = ready(plan_only(*asked))
    say_what_was_left_out(outcome)

    def refuse(as_json: bool) -> int:
        advised = with_suggestions(outcome, asked)
        if as_json:
            print_json(plan_document(advised))
        else:
            print_text("\n".join(refusals(advised)))
        return 2

    device, spec = outcome.machine.probe.devices[0], outcome.spec
    ranks, model = spec.tuning.nodes * spec.tuning.devices, spec.contract.model
    actual = Facts(case=spec.case, device=device.model, framework=spec.tuning.framework, model=model, kind=device.kind,
                   ranks=ranks)  # fmt: skip
    given = {setting.path for setting in from_command_line(asked.selection.settings)}
    elsewhere = []
    for devices, tuned in on_other_devices(whole_library(), actual, asked.selection.read_case().contract.model):
        named, more = ", ".join(devices[:NAMED_DEVICES]), len(devices) - NAMED_DEVICES
        changed = ", ".join(setting.path.removeprefix("tuning.") for setting in tuned if setting.path not in given)
        if changed:
            elsewhere.append(f"{changed} on {named}{f' and {more} more' if more > 0 else ''}")
    return PlannedCase(
        plan=outcome.plan,
        problems=outcome.problems,
        assumed_rates=outcome.plugins.rates(device.model),
        tuned_elsewhere=tuple(elsewhere),
        smaller=lambda: ((settings, planned.plan) for settings, planned in smaller(outcome, asked)),
        refuse=refuse,
    )


@contextmanager
def planned_task(options: dict[str, Any]) -> Iterator[PlannedTask]:
    """The run that the options of `request_options`, or their defaults, ask for, planned for a task of its ranks."""
    from llmperf.planning.build import plan_run
    from llmperf.planning.ready import ready
    from llmperf.running.launched import Task
    from llmperf.running.measure import startable
    from llmperf.running.suggestions import with_suggestions

    asked = request(_with_defaults(options))
    outcome = plan_run(*asked)
    try:
        say_what_was_left_out(outcome)
        yield Task(ready(startable(with_suggestions(outcome, asked))), lambda line: warn(printable(line, " ")))
    finally:
        outcome.machine.close()

"""The `llmperf` command: finds the subcommand, imports only that, turns errors into one line and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from _thread import get_ident
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Any, TextIO

import click

from llmperf.cli import colour
from llmperf.errors import LlmperfError, Refused, UserError, unknown
from llmperf.files.text import printable
from llmperf.plugins.packaged_commands import COMMANDS, PackagedCommand, packaged_commands

HOMES = {"plan": "request"}
"""The modules of commands without one of their own name."""

EXAMPLES = """\b
Examples:
  llmperf run                           train the default case on this machine
  llmperf run default --framework NAME  the same with another framework
  llmperf plan llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8
  llmperf validate runs/                check everything in a folder
"""


@cache
def extra_commands() -> dict[str, PackagedCommand]:
    """The commands of other installed distributions, by name."""
    return packaged_commands(without=COMMANDS)


class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    invoked: PackagedCommand | None = None
    """The command of another package that is being run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands in the order of the help text."""
        return [*COMMANDS, *extra_commands()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """One command, imported now; None if there is no command of that name."""
        command: click.Command
        if name in COMMANDS:
            command = import_module(f"llmperf.cli.{HOMES.get(name, name)}").command
        elif name in extra_commands():
            command = extra_commands()[name].load()
        else:
            return None
        if not any(isinstance(option, colour.ColourOption) for option in command.params):
            command.params.append(colour.ColourOption())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the closest name for an unknown command, or the package that provides it."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and args[0] not in extra_commands():
            from llmperf.plugins.own_packages import project_packages

            providers = project_packages()["commands"]
            if (package := providers.get(args[0])) is not None:
                from llmperf.plugins.mending import install_own

                raise UserError(f"{args[0]} is a command of {package}; install it with: {install_own(package)}")
            raise unknown("", "command", args[0], {*COMMANDS, *extra_commands(), *providers})
        if args and args[0] in COMMANDS:
            rival = None if args[0] == "validate" else packaged_commands().get(args[0])  # it has to be fast
            if rival is not None:
                colour.warn(f"command {rival.name!r} of {' and '.join(rival.distributions)}: {rival.problem()}")
        elif args:
            self.invoked = extra_commands().get(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them, which takes longer than the rest of the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in COMMANDS])
        if extra := extra_commands():
            with formatter.section("Commands of installed packages"):
                formatter.write_dl([(name, command.help_line()) for name, command in extra.items()])


def _summary(name: str) -> str:
    """The first sentence of a core command's docstring, read from its source."""
    with open(os.path.join(os.path.dirname(__file__), f"{HOMES.get(name, name)}.py"), encoding="utf-8") as source:
        docstring = source.read().partition("\ndef command(")[2].split('"""', 2)[1]
    first, *_ = " ".join(docstring.split()).partition(". ")
    return f"{first.rstrip('.')}."


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a stream that cannot take more output."""


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from llmperf import __version__

        click.echo(f"llmperf {__version__}")
        ctx.exit()


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,  # to show the help
    subcommand_metavar="COMMAND [ARGS]...",
    epilog=EXAMPLES,
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Measure how fast an accelerator trains large language models, so that others can trust the figure."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


cli.params.append(colour.ColourOption())


class _Output(TextIOWrapper):
    """Standard output of the main thread; what other threads print, such as those of plugins, goes to stderr."""

    thread = 0

    def write(self, text: str) -> int:
        """Write a text here, or to standard error."""
        if get_ident() != self.thread:
            return sys.stderr.write(text)
        return super().write(text)


def command(arguments: list[str] | None) -> int:
    """Run one command line in its own process and return its exit code; standard output is reserved for llmperf.

    Output of native code or of a plugin's child processes goes to standard error, also when it comes late.
    """
    if sys.stdout is not None and sys.stderr is not None:
        given: Any = sys.stdout
        own = os.dup(given.fileno())
        os.dup2(sys.stderr.fileno(), given.fileno())
        output = _Output(os.fdopen(own, "wb"), given.encoding, given.errors, line_buffering=given.line_buffering)
        output.thread = get_ident()
        sys.stdout = output
    return call(arguments)


def call(arguments: list[str] | None = None) -> int:
    """Run one command line; returns the exit code. Bugs keep their traceback."""
    messages.clear()
    cli.invoked = None
    try:
        code = _called(arguments)
    except Exception as error:
        if cli.invoked is None:
            raise
        return _report_bug(cli.invoked, error)
    if code == 2 and not messages and _folder_is_gone():
        return _report("", 2)
    return code


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _called(arguments: list[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    environment = colour.from_environment()
    colour.choice.set(environment)
    columns = os.environ.get("COLUMNS", "")  # the width of help as click chooses it, without its import of shutil
    try:
        width = int(columns) if columns.isdecimal() else os.get_terminal_size().columns
    except OSError:  # no terminal
        width = 0
    try:
        code: Any = cli.main(
            args=words, prog_name="llmperf", standalone_mode=False, color=environment, obj=tuple(words),
            terminal_width=max(min(width or 80, 80) - 2, 50),
        )  # fmt: skip
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.Abort:
        return _report("interrupted", 130)
    except click.ClickException as error:
        return _report(error.format_message(), error.exit_code)
    except Refused as error:
        return _report(str(error), error.exit_code, lines=True)
    except LlmperfError as error:
        return _report(str(error), getattr(error, "exit_code", 1))
    except BrokenPipeError:
        _redirect_to_devnull(sys.stdout)
        return 1
    except PermissionError as error:
        if error.filename is None:
            raise
        return _report(f"{error.filename}: {error.strerror}", 2)
    except FileNotFoundError as error:
        if error.filename is not None or not _folder_is_gone():
            raise
        return _report("", 2)
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            raise
        _redirect_to_devnull(sys.stdout)
        return _report(f"cannot write the output: {error.strerror}", 2)


def _redirect_to_devnull(stream: TextIO) -> None:
    """Send the rest of a stream's buffer to /dev/null, so that the stream fails only once."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report_bug(command: PackagedCommand, error: Exception) -> int:
    """Report an exception of another package's command, with the part of the traceback that is in that package."""
    import traceback

    from llmperf.plugins.faults import named

    frames = error.__traceback__
    outside = (os.path.dirname(click.__file__), os.path.dirname(__file__))
    while frames is not None and frames.tb_next and frames.tb_frame.f_code.co_filename.startswith(outside):
        frames = frames.tb_next
    owner = " and ".join(command.distributions)
    code = _report(f"command {command.name!r} ({owner}) raised {named(error)}; this is a bug of {owner}", 1)
    lines = "".join(traceback.format_exception(type(error), error, frames))
    click.echo(printable(lines, keep="\n"), err=True, nl=False)
    return code


messages: list[str] = []
"""Error messages of this command."""
GONE = "the working directory does not exist any more"


def _report(message: str, code: int, lines: bool = False) -> int:
    messages.append(message)
    if code == 2 and _folder_is_gone():
        message = f"{message}; {GONE}" if message else GONE
    line = printable(message if lines else " ".join(message.split()), keep="\n")
    try:
        click.echo(f"{click.style('llmperf:', fg='red', bold=True)} {line}", err=True, color=colour.choice.get())
    except OSError:  # standard error cannot be written either
        _redirect_to_devnull(sys.stderr)
    return code

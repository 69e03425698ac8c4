"""Commands of core to which plugins add options, and what those plugins see of a command that was called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from llmperf.cli.colour import ColourOption
from llmperf.errors import LlmperfError, PluginError, UserError

if TYPE_CHECKING:
    from llmperf.plugins.discovery import Found
    from llmperf.types.commands import CommandOptions
    from llmperf.types.remote import NodesCheck

T = TypeVar("T")
Answer = TypeVar("Answer")
HOOK = "llmperf_command_options"
GROUPS = {
    **dict.fromkeys(("vendor", "framework", "devices", "settings", "overlays", "on"), "Case and devices"),
    **dict.fromkeys(("launcher", "hosts", "interface", "image", "container_image", "python"), "Launching"),
    **dict.fromkeys(("stall_timeout", "startup_timeout", "preflight"), "Launching"),
    **dict.fromkeys(("as_json", "wanted", "output", "out", "language", "wide", "verbose", "quiet"), "Output"),
    **dict.fromkeys(("color", "help"), "Output"),
}
"""Title in the help of each option of core; of others `Options`, or the package that adds them."""
ADDED = "llmperf.added_options"
"""Key of the added options in click's context."""


class Added(NamedTuple):
    """The options that plugins add to one command."""

    groups: Sequence[tuple[Found, CommandOptions]]
    left_out: Sequence[str]
    """One line for each plugin that was skipped because it is broken."""

    @property
    def options(self) -> list[click.Parameter]:
        """All parameters, in the order of their plugins."""
        return [option for _, group in self.groups for option in group.options]


def added_options(command: str, own: Iterable[click.Parameter]) -> Added:
    """The options of all extensions for a command; PluginError for a wrong answer or an option that exists already."""
    from llmperf.plugins.faults import who
    from llmperf.plugins.loading import CORE, plugins_for
    from llmperf.types.commands import CommandOptions

    plugins, groups, faults = plugins_for(), list[tuple["Found", "CommandOptions"]](), list[str]()
    taken = {name: CORE for parameter in own for name in _names(parameter)}
    for key, group in plugins.collect_sound(HOOK, faults, command=command):
        found = plugins.found(key)
        if not isinstance(group, CommandOptions) or not all(isinstance(one, click.Option) for one in group.options):
            what = f"CommandOptions of {HOOK} with options of click"
            raise PluginError(f"{who(found)}: expected {what}, found {type(group).__name__}")
        for option in group.options:
            rival = next((name for name in _names(option) if name in taken), None)
            if rival is not None:
                raise PluginError(
                    f"{who(found)}: {HOOK}: {rival} of {command} is an option of {taken[rival].distribution} already"
                )
            taken |= dict.fromkeys(_names(option), found)
        groups.append((found, group))
    for line in faults:
        click.echo(f"left out: {line}", err=True)
    return Added(groups, [*plugins.left_out, *faults])


def _names(parameter: click.Parameter) -> tuple[str, ...]:
    """The spelling for the user, and the name of the value."""
    return (*parameter.opts, *parameter.secondary_opts, *([parameter.name] if parameter.name else []))


class CalledCommand:
    """Implements `llmperf.types.CalledCommand`."""

    def __init__(self, ctx: click.Context) -> None:
        self.ctx = ctx
        self.words: tuple[str, ...] = ctx.obj
        self.values: dict[str, Any] = ctx.params
        self.checks: list[NodesCheck] = []
        """Checks of nodes by plugins."""
        self.beginning: Found | None = None
        """The plugin whose options begin."""

    def given(self, name: str) -> bool:
        """Check whether an argument or option is on the command line."""
        return self.ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE

    def check_nodes(self, check: NodesCheck) -> None:
        """Have nodes checked, in the name of the plugin whose options begin."""
        self.checks.append(self._blamed(check, "the check of nodes"))

    def _blamed(self, function: Callable[[T], Answer], what: str) -> Callable[[T], Answer]:
        """A function of the plugin whose options begin, in whose name its exceptions are."""
        from llmperf.plugins.faults import blaming

        owner = self.beginning
        assert owner is not None

        def blamed(argument: T) -> Answer:
            with blaming(owner, what, limited=False, prints=True):
                return function(argument)

        return blamed


class OpenCommand(click.Command):
    """A command to which plugins add options; a plugin may do the whole command in its place."""

    called: type[CalledCommand] = CalledCommand

    def added(self, ctx: click.Context) -> Added:
        """The options that plugins add, asked for once for each call."""
        if ADDED not in ctx.meta:
            ctx.meta[ADDED] = added_options(str(self.name), super().get_params(ctx))
        added: Added = ctx.meta[ADDED]
        return added

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, those of plugins, then `--color` and `--help`."""
        own = super().get_params(ctx)
        place = next((place for place, one in enumerate(own) if isinstance(one, ColourOption)), len(self.params))
        return [*own[:place], *self.added(ctx).options, *own[place:]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options in groups, those of a package under its name."""
        owners = {id(option): found.distribution for found, group in self.added(ctx).groups for option in group.options}
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)) is not None:
                title = owners.get(id(option)) or GROUPS.get(str(option.name), "Options")
                groups.setdefault(title, []).append(record)
        order = ("Case and devices", "Options", "Launching", *dict.fromkeys(owners.values()), "Output")
        for title in sorted(groups, key=order.index):
            with formatter.section(title):
                formatter.write_dl(groups[title])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, those of plugins included."""
        lines = [line for _, group in self.added(ctx).groups for line in group.examples.splitlines()]
        before = self.epilog
        try:
            self.epilog = "\n".join([(before or "").rstrip("\n"), *lines])
            super().format_epilog(ctx, formatter)
        finally:
            self.epilog = before

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments like click; the error for an option of an absent package names the package."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self.absent(ctx, error.option_name) or error from None

    def absent(self, ctx: click.Context, words: str, what: str = "an option") -> UserError | None:
        """The error for words that belong to a package which is absent or broken; None for other words."""
        from llmperf.plugins.mending import install_own
        from llmperf.plugins.own_packages import project_packages

        package = project_packages()["options"].get(self.name, {}).get(words)
        if package is None:
            return None
        broken = next((line for line in self.added(ctx).left_out if f"({package})" in line), None)
        return UserError(f"{words} is {what} of {package}; {broken or f'install it with: {install_own(package)}'}")

    def invoke(self, ctx: click.Context) -> Any:
        """Let the plugins whose options were added begin, then run the command with its own parameters."""
        from llmperf.plugins.faults import described, who

        called, added = self.called(ctx), self.added(ctx)
        ctx.obj = called
        for name in ("prepare", "begin"):
            for found, group in added.groups:
                called.beginning = found
                function = getattr(group, name)
                try:
                    code = None if function is None else function(called)
                except (LlmperfError, click.ClickException, click.exceptions.Exit, click.Abort, OSError):
                    raise
                except Exception as error:
                    raise PluginError(f"{who(found)}: {HOOK}: {name} raised {described(error)}") from error
                if code is not None and name == "begin":
                    ctx.exit(code)
        for option in added.options:
            ctx.params.pop(str(option.name), None)
        return super().invoke(ctx)

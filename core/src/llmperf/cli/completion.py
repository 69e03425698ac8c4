"""`llmperf completion`, and the completion of cases and plugin names in a shell."""

from __future__ import annotations

import click

EXAMPLES = """\b
Examples:
  eval "$(llmperf completion bash)"                  in ~/.bashrc
  eval "$(llmperf completion zsh)"                   in ~/.zshrc
  llmperf completion fish > ~/.config/fish/completions/llmperf.fish
"""


def case_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion for CASE."""
    from llmperf.cases.library import whole_library

    return [name for name in whole_library().paths("cases") if name.startswith(incomplete)]


def plugin_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion for --vendor and --framework."""
    from llmperf.plugins.discovery import discover

    return [plugin.name for plugin in discover() if plugin.role == param.name and plugin.name.startswith(incomplete)]


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell: commands, options, cases and plugin names."""
    from click.shell_completion import get_completion_class

    from llmperf.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "llmperf", "_LLMPERF_COMPLETE").source())

"""`llmperf completion`: click's own script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

EXAMPLES = """\b
Examples:
  eval "$(llmperf completion bash)"                  in ~/.bashrc
  eval "$(llmperf completion zsh)"                   in ~/.zshrc
  llmperf completion fish > ~/.config/fish/completions/llmperf.fish
"""


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell: commands, options and their values, cases, plugins, runs."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "llmperf", "_LLMPERF_COMPLETE").source())

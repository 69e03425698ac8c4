"""`llmperf completion`."""

from __future__ import annotations

import click

EXAMPLES = """\b
Examples:
  eval "$(llmperf completion bash)"                  in ~/.bashrc
  eval "$(llmperf completion zsh)"                   in ~/.zshrc
  llmperf completion fish > ~/.config/fish/completions/llmperf.fish
"""


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell: commands, options, cases and plugin names."""
    from click.shell_completion import get_completion_class

    from llmperf.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "llmperf", "_LLMPERF_COMPLETE").source())

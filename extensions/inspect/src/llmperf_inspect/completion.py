"""Print the script by which a shell completes commands of llmperf."""

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
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell: commands, options and their values, cases, plugins, runs."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "llmperf", "_LLMPERF_COMPLETE").source())

"""`llmperf completion`, and how each shell passes a command line and takes the words that complete it."""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

EXAMPLES = """\b
Examples:
  eval "$(llmperf completion bash)"                  in ~/.bashrc
  eval "$(llmperf completion zsh)"                   in ~/.zshrc
  llmperf completion fish > ~/.config/fish/completions/llmperf.fish
"""

BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" %(complete_var)s=bash_complete "$1")
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        elif [[ $type == plain ]]; then
            [[ $value == *[=:] || $value == framework. ]] && compopt -o nospace
            [[ $value == *[[:space:]]* ]] && printf -v value '%%q' "$value"
            COMPREPLY+=("$value")
        fi
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
"""Unlike click's script it passes the line: bash divides words at `=`, so that `--set micro_batch=4` would be three."""
WORD_BREAKS = "=:"
"""Where bash divides words: only the rest of a word is replaced."""

ZSH_ADDS = 'completions+=("$key")'
ZSH_ADDS_PATHS = (
    'if [[ "$key" == (*[=:]|framework.) ]]; then compadd -U -S "" -- "$key"; else completions+=("$key"); fi'
)
"""A path of --set goes on after its `=` or `framework.`, a model of --on after its `:`, without a space."""


class Bash(BashComplete):
    """Bash, with words that contain `=` or `:`."""

    source_template = BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one to complete, and what there is of that."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words, incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """The completions, without the part of the word that bash keeps."""
        kept = incomplete[: max(map(incomplete.rfind, WORD_BREAKS)) + 1]
        items = super().get_completions(args, incomplete)
        return [CompletionItem(str(item.value).removeprefix(kept), item.type) for item in items]


class Zsh(ZshComplete):
    """Zsh, without a space after the path of a setting."""

    source_template = ZshComplete.source_template.replace(ZSH_ADDS, ZSH_ADDS_PATHS)


class Fish(FishComplete):
    """Fish, with values that contain a comma."""

    source_template = FishComplete.source_template.replace('(string split ","', '(string split -m 1 ","')


for shell in (Bash, Zsh, Fish):
    add_completion_class(shell)


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell: commands, options and their values, cases, settings, plugins, runs."""
    from llmperf.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "llmperf", "_LLMPERF_COMPLETE").source())

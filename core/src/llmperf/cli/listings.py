"""`llmperf models`."""

from __future__ import annotations

import click

from llmperf.cli.output import big, json_option, print_json, print_table, say_left_out

EXAMPLES = """\b
Examples:
  llmperf models
  llmperf models --json
"""


@click.command("models", epilog=EXAMPLES)
@json_option
def command(as_json: bool) -> None:
    """List the models with their exact parameter counts and the source of their facts."""
    from llmperf.accounting.flops import flops_of
    from llmperf.cases.library import whole_library
    from llmperf.files.json_files import builtins
    from llmperf.plugins.loading import plugins_for
    from llmperf.types import Workload

    shelf, plugins = whole_library(), plugins_for()
    models = shelf.readable("models", shelf.model)
    say_left_out([*shelf.left_out, *plugins.left_out])
    counts = {model.name: flops_of(plugins, model, Workload(seq_len=model.max_positions)) for model in models}
    if as_json:
        print_json([{**builtins(model), "parameters": counts[model.name].parameters} for model in models])
        return
    print_table(
        ["model", "parameters", "layers", "hidden", "heads", "kv heads", "vocabulary", "positions"],
        [
            (
                model.name,
                big(counts[model.name].parameters),
                model.layers,
                model.hidden_size,
                model.attention_heads,
                model.kv_heads,
                model.vocab_size,
                f"{model.max_positions} {model.position_encoding}",
            )
            for model in models
        ],
    )
    click.echo("\nsources:")
    for model in models:
        click.echo(f"  {model.name}: {model.source}")

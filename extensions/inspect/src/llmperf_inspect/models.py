"""List the models, or show one with its parameters and FLOPs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import click
import llmperf
from llmperf.errors import UserError

if TYPE_CHECKING:
    from llmperf.types import FlopCount, Model

EXAMPLES = """\b
Examples:
  llmperf models                                     all models, with their sources
  llmperf models qwen3_30b_a3b --seq-len 4096        parameters and FLOPs by component
"""


@click.command("models", cls=llmperf.OpenCommand, epilog=EXAMPLES)
@click.argument("names", metavar="[NAME]", nargs=-1, type=llmperf.Utf8(), shell_complete=llmperf.model_names)
@click.option("--seq-len", type=click.IntRange(min=1, max=2**31), help="Tokens in a sequence.  [default: 4096]")
@llmperf.headings_option
@llmperf.json_option
@click.pass_context
def command(ctx: click.Context, /, names: tuple[str, ...], seq_len: int | None, as_json: bool) -> None:
    """List the models, or show one.

    NAME: a model of the library, or a model file; its facts, parameters and FLOPs are shown.
    """
    assert isinstance(ctx.command, llmperf.OpenCommand)
    if names and (error := ctx.command.absent(ctx, names[0], "a command")):
        raise error
    if len(names) > 1:
        raise UserError(f"expected one NAME, found {' '.join(names)}")
    if names:
        _show(names[0], seq_len or 4096, as_json)
    else:
        _list(as_json)


def _list(as_json: bool) -> None:
    from llmperf import builtins, whole_library
    from llmperf.accounting import flops_of
    from llmperf.planning import plugins_for
    from llmperf.types import Workload

    shelf, plugins = whole_library(), plugins_for()

    def counted(name: str) -> tuple[Model, FlopCount]:
        model = shelf.model(name)
        return model, flops_of(plugins, model, Workload(seq_len=model.max_positions or 4096))

    read = shelf.readable("models", counted)
    say_left_out([*shelf.left_out, *plugins.left_out])
    if as_json:
        llmperf.print_json(
            [{**builtins(model), "parameters": count.parameters, "active_parameters": count.active_parameters}
             for model, count in read]
        )  # fmt: skip
        return
    llmperf.print_table(
        ["model", "parameters", "active", "family", "layers", "hidden", "heads", "kv heads", "vocabulary", "positions"],
        [(model.name, big(count.parameters), big(count.active_parameters) if model.nominal_active_parameters else None,
          model.family, model.layers, model.hidden_size, model.attention_heads, model.kv_heads, model.vocab_size,
          f"{model.max_positions or 'any'} {model.position_encoding}")
         for model, count in read],
    )  # fmt: skip
    click.echo("\nsources:")
    for model, _ in read:
        llmperf.print_text(f"  {model.name}: {model.source}")


def _show(name: str, seq_len: int, as_json: bool) -> None:
    from llmperf import whole_library_for

    from llmperf_inspect.model_file import model_text

    model = whole_library_for("models", name).model(name, "NAME")
    document = _document(model, seq_len)
    if as_json:
        llmperf.print_json(document)
        return
    llmperf.print_text(model_text(model))
    by = "" if document["counted_by"] == "core" else f", counted by extension {document['counted_by']}"
    click.echo(f"parameters{by}")
    total, active = document["total_parameters"], document["active_parameters"]
    for part, parameters in (document["parameters"] or {}).items():
        click.echo(f"  {part:26}{parameters:>20,}  {100 * parameters / total:5.1f} %")
    click.echo(f"  {'total':26}{total:>20,}")
    if active is not None and active != total:
        click.echo(f"  {'a token passes':26}{active:>20,}")
    for part in model.stated_parts:
        click.echo(f"  {'beside: ' + part.name:26}{part.parameters:>20,}  stated, not trained")
    if seq_len > (model.max_positions or seq_len):
        click.echo(f"\nnote: {seq_len} tokens are more than the {model.max_positions} positions of the model")
    if document["forward_flops"] is not None:
        click.echo(f"\nGFLOP of a forward pass per token at {seq_len} tokens, by component")
        flops = document["forward_flops"]
        masks = {"full": "all pairs", "causal": "causal", "windowed": "causal, windows"}
        click.echo(f"  {'':26}" + "".join(f"{title:>18}" for title in masks.values()))
        for name in flops["full"]:
            row = [f"{flops[mask][name] / 1e9:.6g}" for mask in masks]
            click.echo(f"  {name:26}" + "".join(f"{figure:>18}" for figure in (row if len(set(row)) > 1 else row[:1])))
        click.echo(f"  {'total':26}" + "".join(f"{sum(flops[mask].values()) / 1e9:>18.6g}" for mask in masks))
    click.echo(f"\nGFLOP per trained token by convention{by}")
    for entry in document["conventions"]:
        click.echo(f"  {entry['title']:48} {entry['flops'] / 1e9:>10.6g}  {entry['formula']}")


def _document(model: Model, seq_len: int) -> dict[str, Any]:
    """Facts, parameters and FLOPs of a model for `--json`; components are null where an extension counts."""
    from llmperf import builtins
    from llmperf.accounting import count_parameters, flops_by, flops_of, forward_flops, known_conventions
    from llmperf.planning import plugins_for
    from llmperf.types import Workload

    workload, plugins = Workload(seq_len=seq_len), plugins_for()
    say_left_out(plugins.left_out)
    flops, known = flops_of(plugins, model, workload), known_conventions()
    by_core = flops.counted_by == "core"
    counted: dict[str, Any] = {str(entry.convention): entry for entry in flops.per_token}
    if by_core:
        counted = {name: flops_by(convention, model, workload) for name, convention in known.items()}
    masks: tuple[Literal["full", "causal", "windowed"], ...] = ("full", "causal", "windowed")
    return {
        "model": builtins(model),
        "counted_by": flops.counted_by,
        "parameters": count_parameters(model).components if by_core else None,
        "total_parameters": flops.parameters,
        "active_parameters": flops.active_parameters,
        "seq_len": seq_len,
        "forward_flops": {mask: forward_flops(model, seq_len, mask) for mask in masks} if by_core else None,
        "conventions": [
            {"convention": name, "flops": entry.flops, "formula": entry.formula, "leaves_out": entry.leaves_out,
             "title": known[name].title, "source": known[name].source}
            for name, entry in counted.items()
        ],
    }  # fmt: skip


def big(number: float | None) -> str | None:
    """A number with digit groups, or in powers of ten above 10^12."""
    if number is None:
        return None
    return f"{number:.4g}" if number >= 1e12 else f"{number:,.0f}"


def say_left_out(lines: Iterable[str]) -> None:
    """Print on standard error what could not be used."""
    for line in lines:
        click.echo(llmperf.printable(f"left out: {line}"), err=True)

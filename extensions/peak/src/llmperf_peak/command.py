"""Measure what the devices of this machine achieve, by single operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from llmperf import Finite, headings_option, json_option, model_names, painted, plugin_names, printable, warn

from llmperf_peak.rank import TimedOperation
from llmperf_peak.rates import MeasuredRates

EXAMPLES = """\b
Examples:
  llmperf peak
  llmperf peak --devices 1 --dtype bf16
  llmperf peak --model llama1_13b --out rates.json
"""


@click.command("peak", epilog=EXAMPLES)
@click.option("--vendor", metavar="V", shell_complete=plugin_names,
              help="Whose devices; the best here by default.")  # fmt: skip
@click.option("--framework", metavar="F", shell_complete=plugin_names,
              help="What provides the operations; the first that can by default.")  # fmt: skip
@click.option("--devices", metavar="N", type=click.IntRange(min=1), help="Ranks; all devices by default.")
@click.option("--model", metavar="M", default="llama2_7b", show_default=True, shell_complete=model_names,
              help="Whose matrix products and attention are timed.")  # fmt: skip
@click.option("--dtype", "dtypes", metavar="D", multiple=True,
              help="Of products, such as bf16; may be repeated. All that the devices offer by default.")  # fmt: skip
@click.option("--seconds", metavar="S", type=Finite(min=0.01, max=60), default=0.4, show_default=True,
              help="For the repeats of each operation.")  # fmt: skip
@click.option("-o", "--out", "output", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the rates as JSON, for `llmperf estimate --rates`.")  # fmt: skip
@headings_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, output: Path | None, as_json: bool, **options: Any) -> None:
    """Measure what the devices of this machine achieve, in about a minute.

    Matrix products and attention at a model's own shapes, memory bandwidth, launches, and collectives of all ranks.
    Outputs are checked. Later runs on this machine use the rates for a second MFU. Exits with 1 if an output is wrong.
    """
    from llmperf import encode_pretty, print_json, writable, write_bytes

    from llmperf_peak.rates import measure_peak

    if output is not None:  # before a minute of measuring
        writable(output)
    measured = measure_peak(**options | {"dtypes": tuple(dict.fromkeys(options["dtypes"]))}, show=_show)
    if output is not None:
        write_bytes(output, encode_pretty(measured.rates))
    if as_json:
        print_json(measured.rates)
    else:
        _print(measured)
    if measured.not_kept is not None:
        warn(f"not used by later runs: {printable(measured.not_kept, ' ')}")
    for line in measured.wrong:
        click.echo(painted(f"error: wrong output, not used: {printable(line, ' ')}"), err=True)
    ctx.exit(1 if measured.wrong else 0)


def _show(timed: TimedOperation) -> None:
    """A line of progress for each operation."""
    operation, ranks = timed.operation, f"{timed.ranks} rank{'s' if timed.ranks > 1 else ''}"
    figures = f"{1e3 * timed.median_seconds:.3g} ms, {timed.runs} runs on each of {ranks}"
    click.echo(f"{operation.kind} {operation.dtype} {' x '.join(map(str, operation.shape))}: {figures}", err=True)


def _print(measured: MeasuredRates) -> None:
    from llmperf import print_table
    from llmperf.reporting import Column

    rates = measured.rates
    click.echo(f"{printable(rates.device_model, ' ')}, one whole device, {rates.date}")
    click.echo("; ".join(f"{name} {printable(value, ' ')}" for name, value in rates.conditions.items()))
    click.echo()
    rows = [
        [matmul.dtype, " x ".join(map(str, matmul.shape[1:])), _giga(matmul.flops_per_second), _percent(matmul.spread)]
        for matmul in rates.matmuls
    ]
    rows += [
        [each.operation.dtype, f"attention {' x '.join(map(str, each.operation.shape[1:]))}",
         _giga(rates.attention_flops_per_second.get(each.operation.dtype)), _percent(each.spread)]
        for each in measured.timed if each.operation.kind == "attention"
    ]  # fmt: skip
    titles = ("dtype", "rows x columns x inner", "GFLOP/s", "spread")
    print_table([Column(title=title, importance=place, right=place > 2) for place, title in enumerate(titles, 1)], rows)
    if rates.collectives:
        click.echo()
        collectives = [
            [rate.collective.replace("_", "-"), f"{rate.bytes:,}", f"{1e6 * rate.seconds:,.1f}",
             _giga(rate.bus_bytes_per_second, 3), _percent(rate.spread)]
            for rate in rates.collectives
        ]  # fmt: skip
        links = (f"{rates.collectives[0].ranks} ranks", "bytes", "microseconds", "bus GB/s", "spread")
        columns = [Column(title=title, importance=place, right=place > 1) for place, title in enumerate(links, 1)]
        print_table(columns, collectives)
    click.echo()
    for title, by_dtype in (
        ("matrix products", rates.matmul_flops_per_second),
        ("attention, forward and backward", rates.attention_flops_per_second),
    ):
        if by_dtype:
            click.echo(f"{title}: {', '.join(f'{dtype} {_giga(rate)} GFLOP/s' for dtype, rate in by_dtype.items())}")
    read = "" if rates.memory_read_bytes_per_second is None else f", read {_giga(rates.memory_read_bytes_per_second)}"
    click.echo(f"memory: copy {_giga(rates.memory_bytes_per_second)}{read} GB/s")
    click.echo(f"launch: {1e6 * rates.launch_seconds:.2f} microseconds")
    for link in rates.links:
        step = f"{1e6 * link.latency_seconds:.1f} microseconds a step"
        click.echo(f"{link.scope}: {_giga(link.bytes_per_second, 3)} GB/s, {step}")
    if measured.kept is not None:
        click.echo(f"\nused by later runs on this machine: {printable(str(measured.kept), ' ')}")


def _giga(value: float | None, digits: int = 1) -> str | None:
    return None if value is None else f"{value / 1e9:,.{digits}f}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.0f} %"

"""`llmperf estimate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from llmperf.cli.colour import warn
from llmperf.cli.completed_values import device_names
from llmperf.cli.options import Finite, Seconds
from llmperf.cli.output import print_json, print_text
from llmperf.cli.request import request, request_options, say_what_was_left_out

try:  # costs are those of another package, until estimates are one too
    from llmperf_compare.cost import costing_for
    from llmperf_compare.options import cost_options
except ImportError:
    costing_for, cost_options = None, tuple  # type: ignore[assignment]

EXAMPLES = """\b
Examples:
  llmperf estimate llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8
  llmperf estimate llama2_7b_lora --on A100-SXM4-40GB:1x1 --set precision=fp16 --set micro_batch=4
  llmperf estimate baichuan2_13b_pretrain_zero --on H800:2x8 --network 200
  llmperf estimate default --rates rates.json --json
  llmperf estimate llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8 --prices prices.toml --train-tokens 100B
"""


@click.command("estimate", epilog=EXAMPLES)
@request_options
@click.option("--on", metavar="MODEL:NxD", shell_complete=device_names,
              help="Estimate for a machine that is not here, such as A100-SXM4-40GB:1x8.")  # fmt: skip
@click.option("--rates", "rates_file", metavar="FILE", type=click.Path(path_type=Path),
              help="What `llmperf peak --output FILE` measured, in place of the vendor's assumptions.")  # fmt: skip
@click.option("--network", metavar="GBIT", type=Finite(min=0.001, max=1e6),
              help="Network of each node, all adapters together, in Gb/s of one direction.")  # fmt: skip
@click.option("--analytic", is_flag=True, help="Use formulas alone: within a second, but less exact.")
@click.option("--trace-timeout", metavar="SECONDS", type=Seconds(), default=300.0, show_default=True,
              help="Time limit of the trace of one pipeline stage.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    /,
    on: str | None,
    rates_file: Path | None,
    network: float | None,
    analytic: bool,
    trace_timeout: float,
    prices: Path | None = None,
    train_tokens: int | None = None,
    **options: Any,
) -> None:
    """Estimate memory and step time of a case on devices that need not be here.

    The trainer runs one step at full size on tensors without data. Exits with 2 if something does not fit together, and
    with 1 if the memory does not suffice.

    With prices, or with the tokens of a training, the estimate says what a training costs, and how sure that is.
    """
    from llmperf.cli.estimate_text import estimate_text
    from llmperf.cli.plan import show
    from llmperf.running.estimate import EstimateOptions, estimate

    how = EstimateOptions(
        analytic=analytic,
        rates_file=rates_file,
        network_bytes_per_second=None if network is None else network * 1e9 / 8,
        trace_seconds=trace_timeout,
    )
    costing = None
    if costing_for is not None:
        costing = costing_for(prices, train_tokens, warn)
    outcome, estimated = estimate(request(options, on), how, lambda line: click.echo(line, err=True))
    if estimated is None or outcome.plan is None:
        ctx.exit(show(outcome, options["as_json"], whole=False))
    say_what_was_left_out(outcome)
    rows = []
    if costing is not None:
        from llmperf.reporting.estimated_cost import cost_document, cost_facts, cost_rows_of

        rows = cost_rows_of(
            estimated, costing, outcome.plan.device_share, None if on is None else on.rpartition(":")[0]
        )
    if options["as_json"]:
        cost = None if estimated.fits is False or costing is None else cost_document(rows)
        print_json(replace(estimated, cost=cost))
    else:
        print_text(estimate_text(estimated, cost_facts(estimated, rows) if costing is not None else ()), nl=False)
    ctx.exit(1 if estimated.fits is False else 0)


command.params += cost_options()

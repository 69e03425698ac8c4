"""Estimate memory and step time of a case on devices that need not be here."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from llmperf import (
    Finite,
    case_options,
    device_names,
    encode_pretty,
    language_option,
    planned_case,
    print_facts,
    print_json,
    print_text,
    warn,
    wide_option,
    write_bytes,
    write_report,
)
from llmperf.errors import UserError
from llmperf_compare.options import cost_options

EXAMPLES = """\b
Examples:
  llmperf estimate llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8
  llmperf estimate llama2_7b_lora --on A100-SXM4-40GB:1x1 --set precision=fp16 --set micro_batch=4
  llmperf estimate baichuan2_13b_pretrain_zero --on H800:2x8 --network 200
  llmperf estimate default --rates rates.json --json
  llmperf estimate llama2_7b_pretrain_zero --on A100-SXM4-80GB:1x8 --prices prices.toml --train-tokens 100B
  llmperf estimate llama2_7b_pretrain_zero --on A100-SXM4-80GB,H800,MI300X --analytic --train-tokens 100B --tuned
  llmperf estimate --model config.json --train-tokens 1T --on H100-80GB-HBM3,MI300X --analytic --tuned
"""


@click.command("estimate", epilog=EXAMPLES)
@case_options
@click.option("--on", metavar="MODEL:NxD,...", shell_complete=device_names,
              help="Estimate for a machine that is not here, such as A100-SXM4-40GB:1x8; for several, such as"
                   " A100-SXM4-80GB,H800:1x8, or `all`, one ranked table.")  # fmt: skip
@click.option("--model", metavar="M", type=click.Path(),
              help="A model of the library, a model file or a Hugging Face config.json; without CASE, in a pre-training"
                   " in bf16 at 4096 tokens.")  # fmt: skip
@click.option("--tuned", is_flag=True,
              help="With several machines: each at the fastest tuning that fits, instead of one for all.")  # fmt: skip
@click.option("--format", "wanted", metavar="NAME", default="terminal", show_default=True,
              help="json, as --json; for several machines also a format of `llmperf report`, as html.")  # fmt: skip
@click.option("-o", "--out", "output", metavar="FILE", type=click.Path(path_type=Path),
              help="With --format: write to a file.")  # fmt: skip
@click.option("--rates", "rates_file", metavar="FILE", type=click.Path(path_type=Path),
              help="What `llmperf peak --out FILE` measured, in place of the vendor's assumptions.")  # fmt: skip
@click.option("--network", metavar="GBIT", type=Finite(min=0.001, max=1e6),
              help="Network of each node, all adapters together, in Gb/s of one direction.")  # fmt: skip
@click.option("--analytic", is_flag=True, help="Use formulas alone: within a second, but less exact.")
@click.option("--trace-timeout", metavar="SECONDS", type=Finite(min=1), default=300.0, show_default=True,
              help="Time limit of the trace of one pipeline stage.")  # fmt: skip
@language_option
@wide_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    on: str | None,
    tuned: bool,
    model: str | None,
    wanted: str,
    output: Path | None,
    rates_file: Path | None,
    network: float | None,
    analytic: bool,
    trace_timeout: float,
    language: str,
    wide: bool,
    prices: Path | None,
    train_tokens: int | None,
    **options: Any,
) -> None:
    """Estimate memory and step time of a case on devices that need not be here.

    The trainer runs one step at full size on tensors without data. Exits with 2 if something does not fit together, and
    with 1 if the memory does not suffice.

    With prices, or with the tokens of a training, the estimate says what a training costs, and how sure that is.
    """
    from llmperf_compare.cost import costing_for

    from llmperf_estimate.estimate import EstimateOptions, estimate
    from llmperf_estimate.text import facts, verdict

    how = EstimateOptions(
        analytic=analytic,
        rates_file=rates_file,
        network_bytes_per_second=None if network is None else network * 1e9 / 8,
        trace_seconds=trace_timeout,
    )
    if model is not None:
        from llmperf_estimate.any_model import ANY_CASE, settings_for

        own_case = ctx.get_parameter_source("case") is not click.core.ParameterSource.DEFAULT
        settings = settings_for(model, ctx, own_case, tuned)
        options |= {"settings": (*settings, *options["settings"])} | ({} if own_case else {"case": ANY_CASE})
    costing = costing_for(prices, train_tokens, warn)
    as_json = options["as_json"] or wanted == "json"
    if on is not None and ("," in on or on.partition(":")[0] == "all"):
        from llmperf_compare.page import print_page

        from llmperf_estimate.side_by_side import ranking_page, side_by_side

        if rates_file is not None:
            raise UserError("--rates has the rates of one device: expected one machine for --on")
        candidates = side_by_side(
            options, on, how, costing, tuned, lambda line: click.echo(line, err=True) if sys.stderr.isatty() else None
        )
        if costing is not None and costing.prices is not None:  # a misspelt device, beside one without a price
            from llmperf_compare.prices import matched_prices

            matched_prices(costing.prices, [one.estimate.device_model for one in candidates if one.estimate], warn)
        electricity = costing is not None and costing.prices is not None and costing.prices.electricity is not None
        page = ranking_page(candidates, tuned, language, electricity)
        if as_json and output is not None:
            write_bytes(output, encode_pretty(candidates))
        elif as_json:
            print_json(candidates)
        elif wanted in ("terminal", "markdown") and output is None:
            print_page(page, wanted, language, wide)
        else:
            from llmperf_estimate.sheets import estimate_sheets

            said = tuple(line.text for line in (*page.answers, *page.about, *page.warnings, *page.notes))
            if wanted != "html":  # which has them above its chart
                click.echo("\n".join(said), err=True)
            named = [(one.estimate, Path(one.machine)) for one in candidates if one.estimate is not None]
            sheets = [sheet for made, name in named for sheet in estimate_sheets(made, name, foreword=said)]
            write_report(sheets, wanted, language, output)
        ctx.exit(0 if any(one.problem is None for one in candidates) else 1)
    if tuned or wanted not in ("terminal", "json") or output is not None:
        option = "--tuned" if tuned else "--out" if wanted in ("terminal", "json") else "--format"
        raise UserError(f"{option}: expected several machines for --on, such as A100-SXM4-80GB,H800:1x8")
    if on is not None and ":" not in on:
        from llmperf_estimate.any_model import SIZE

        on = f"{on}:{SIZE}"
    case = planned_case(options, on)
    estimated = estimate(case, how, lambda line: click.echo(line, err=True))
    if estimated is None or case.plan is None:
        ctx.exit(case.refuse(as_json))
    cost, cost_lines = None, tuple[tuple[str, str], ...]()
    if costing is not None:
        from llmperf_estimate.cost import cost_document, cost_facts, cost_rows_of

        rows = cost_rows_of(estimated, costing, case.plan.device_share, None if on is None else on.rpartition(":")[0])
        cost, cost_lines = cost_document(rows), tuple(cost_facts(estimated, rows))
    if as_json:
        print_json(replace(estimated, cost=None if estimated.fits is False else cost))
    else:
        print_text(verdict(estimated, language) + "\n")
        print_facts([*facts(estimated), *cost_lines, *(("note", note) for note in estimated.notes)])
    ctx.exit(1 if estimated.fits is False else 0)


at = next(place for place, one in enumerate(command.params) if one.name == "trace_timeout")
command.params[at + 1 : at + 1] = cost_options()

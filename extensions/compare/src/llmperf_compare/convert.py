"""Re-express a published figure in another convention of FLOPs, and of another peak."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import click
from llmperf import Finite, convert, json_option, model_names, print_json, whole_library_for
from llmperf.accounting import Convention, flops_by, known_conventions
from llmperf.errors import UserError, unknown
from llmperf.types import Dtype, Model, Workload
from llmperf.validation import installed_vendors, vendor_catalogue

EXAMPLES = """\b
Examples:
  llmperf convert 51.8% --model llama3_1_8b --seq-len 8192 --from nominal --peak 989.4
  llmperf convert 62.47% --model llama3_1_8b --seq-len 8192 --from full --peak 989.4 --to causal
  llmperf convert 10682 --model llama3_1_8b --seq-len 8192 --peak H100-SXM5-80GB:bf16
  llmperf convert 37.6% --model llama3_1_8b --seq-len 8192 --from causal --peak 1979 --to-peak 989.4
"""
FIGURE = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,12})?) ?(?P<unit>%|TFLOP/s|tokens/s|)", re.IGNORECASE)
FLOPS_PER_TERA = 1e12
LARGEST_LIKELY_PERCENT = 200
"""A larger number without a unit is not taken for an MFU that lacks its sign."""


def convention_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion for conventions of FLOPs."""
    return [name for name in known_conventions() if name.startswith(incomplete)]


@click.command("convert", epilog=EXAMPLES)
@click.argument("figure")
@click.option("--model", required=True, shell_complete=model_names, help="A model of the library, or a model file.")
@click.option("--seq-len", type=click.IntRange(min=1, max=2**31), required=True, help="Tokens in a sequence.")
@click.option("--from", "origin", metavar="CONVENTION", shell_complete=convention_names,
              help="In which the figure was published.")  # fmt: skip
@click.option("--to", "target", metavar="CONVENTION", shell_complete=convention_names,
              help="Only this convention; by default all.")  # fmt: skip
@click.option("--peak", metavar="TFLOPS|DEVICE:DTYPE", help="Peak of one device that the figure is of.")
@click.option("--to-peak", metavar="TFLOPS|DEVICE:DTYPE", help="The peak to convert to.")
@click.option("--lora-parameters", type=click.IntRange(min=0, max=2**53), help="Weights are frozen but for these.")
@click.option("--recomputed", type=Finite(min=0, max=1), help="Share of the blocks whose forward is computed twice.")
@json_option
def command(
    figure: str, model: str, seq_len: int, origin: str | None, target: str | None, peak: str | None,
    to_peak: str | None, lora_parameters: int | None, recomputed: float | None, as_json: bool,
) -> None:  # fmt: skip
    """Re-express a published figure in another convention of FLOPs, and of another peak.

    FIGURE is an MFU (`51.8%`), FLOP/s of one device (`512 TFLOP/s`) or its throughput (`10682`, in tokens/s). An MFU
    and FLOP/s need `--from`. CONVENTION is a name, a program that counts so (torchtitan), or choices such as
    `active+causal`; `llmperf models NAME` lists them.
    """
    facts = whole_library_for("models", model).model(model, "--model")
    share = recomputed or 0.0
    workload = Workload(
        seq_len=seq_len, gradient_checkpointing=share > 0, recomputed_share=share, lora_parameters=lora_parameters
    )
    match = FIGURE.fullmatch(figure.strip())
    if match is None or not float(match["number"]):
        expected = "a number above 0 with %, TFLOP/s or tokens/s"
        raise UserError(f"FIGURE: expected {expected}, found {figure!r}; nearest: 51.8%, '512 TFLOP/s' or 10682")
    number, unit = float(match["number"]), match["unit"].lower() or "tokens/s"
    if unit == "tokens/s" and origin is not None:
        nearest = f"{figure}%" if number <= LARGEST_LIKELY_PERCENT else "no --from"
        raise UserError(f"--from: a throughput follows no convention, found {figure!r}; nearest: {nearest}")
    of = None if peak is None else _peak(peak, "--peak")
    source = None if origin is None else convention_of(origin, "--from")
    if source is None:
        if unit != "tokens/s":
            names = ", ".join(known_conventions())
            raise UserError(f"--from: expected the convention of {figure!r}, found none; expected one of: {names}")
        tokens = number
    else:
        if unit == "%" and of is None:
            raise UserError(f"--peak: expected the peak that {figure!r} is of, found none")
        flops = number / 100 * of if unit == "%" and of is not None else number * FLOPS_PER_TERA
        tokens = flops / flops_by(source, facts, workload).flops
    wanted = list(known_conventions().values()) if target is None else [convention_of(target, "--to")]
    final = of if to_peak is None else _peak(to_peak, "--to-peak")
    given = None if source is None else converted(tokens, source, facts, workload, of)
    results = [converted(tokens, convention, facts, workload, final) for convention in wanted]
    if as_json:
        print_json({"model": facts.name, "seq_len": seq_len, "from": given, "to": results})
        return
    if given is not None:
        click.echo(f"published, {given['title']}\n  {given['how']}")
        click.echo(f"  GFLOP per token: {given['formula']} = {given['flops_per_token'] / 1e9:.6g} x 10^9\n")
    for entry in results:
        click.echo(f"{entry['title']}\n  {entry['how']}\n  per token: {entry['formula']}")
    if any((entry["mfu"] or 0) > 1 for entry in (*([given] if given else []), *results)):
        click.echo("note: more than the peak: figure, convention, peak or device count is not what it is taken for")


def _peak(text: str, where: str) -> float:
    """FLOP/s of a number in TFLOP/s, or of a device that an installed vendor plugin publishes the peak of."""
    if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text):
        if not float(text):
            raise UserError(f"{where}: expected TFLOP/s above 0, found {text}")
        return float(text) * FLOPS_PER_TERA
    name, _, dtype = text.rpartition(":")
    if not name:
        raise UserError(f"{where}: expected TFLOP/s or DEVICE:DTYPE such as H100-SXM5-80GB:bf16, found {text!r}")
    devices = []
    for vendor in sorted(installed_vendors()):
        catalogue = vendor_catalogue(vendor)
        if catalogue is None:
            continue
        devices += [device.model for device, _ in catalogue.devices]
        device = catalogue.exact(name)
        if device is not None:
            known = next((name for name in get_args(Dtype) if name == dtype), None)
            peak = None if known is None else catalogue.peak(device, known)
            if peak is None:
                offered = ", ".join(catalogue.precisions(device))
                raise UserError(
                    f"{where}: {device.model} has no published peak in {dtype!r}; expected one of: {offered}"
                )
            return peak.flops_per_second
    raise unknown(where, "device", name, devices)


def converted(
    tokens_per_second: float, convention: Convention, model: Model, workload: Workload, peak: float | None
) -> dict[str, Any]:
    """A throughput of one device by a convention, with the formulas; `peak` in FLOP/s is that of the MFU, a share."""
    counted = flops_by(convention, model, workload)
    rate = tokens_per_second * counted.flops
    how = f"{tokens_per_second:,.6g} token/s x {counted.flops / 1e9:.6g} GFLOP"
    if peak is None:
        how += f" = {rate / 1e12:.4g} TFLOP/s"
    else:
        how += f" / {peak / 1e12:,.6g} TFLOP/s = {100 * rate / peak:.2f} %"
    return {
        "convention": convention.name,
        "title": convention.title,
        "flops_per_token": counted.flops,
        "formula": counted.formula,
        "tokens_per_second_per_device": tokens_per_second,
        "flops_per_second_per_device": rate,
        "mfu": None if peak is None else rate / peak,
        "how": how,
    }


def convention_of(text: str, where: str = "convention") -> Convention:
    """A convention by its name, by the name of a program that uses it, or by its choices.

    Choices are `WEIGHTS+ATTENTION` or `WEIGHTS+ATTENTION+recompute`. UserError with the closest name otherwise.
    """
    named = {convention.name: convention for convention in known_conventions().values()}
    for convention in known_conventions().values():
        named |= {name.casefold(): convention for name in convention.known_as}
    if text.casefold() in named:
        return named[text.casefold()]
    if "+" not in text:
        raise unknown(where, "convention", text, named)
    choices, (weights, attention, *more) = get_type_hints(Convention), text.split("+")
    if more not in ([], ["recompute"]):
        raise UserError(f"{where}: expected WEIGHTS+ATTENTION or WEIGHTS+ATTENTION+recompute, found {text!r}")
    if weights not in get_args(choices["weights"]):
        raise unknown(where, "choice of weights", weights, get_args(choices["weights"]))
    if attention not in get_args(choices["attention"]):
        raise unknown(where, "choice of attention", attention, get_args(choices["attention"]))
    table = {"name": text, "weights": weights, "attention": attention, "recompute": bool(more)}
    return convert(table, Convention, where)

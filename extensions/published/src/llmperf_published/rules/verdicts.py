"""What is known of each row of an imported document: it agrees with its facts, it is wrong, or it was not checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from llmperf.errors import PluginError
from llmperf.types import Finding
from llmperf.validation.catalogue import Violation, rules_for
from llmperf.validation.devices import installed_vendors, vendor_trouble
from llmperf.validation.reading import printable, shown
from llmperf.validation.rules.files import PLUGIN_FAILED

from llmperf_published.reading.markdown import withheld
from llmperf_published.rules.machine import Machine, dtypes_of, machine_of
from llmperf_published.rules.mfu import flops_per_token, mfu_agrees, per_device, why_open
from llmperf_published.types.document import Published, PublishedRow

Outcome = Literal["agrees", "wrong", "not checked"]
CHIEF = 3
"""How many reasons are named in a summary."""
NO_VENDOR = (
    "no vendor is named; name it in the title (`# NVIDIA results`) or in a line below a heading `## Hardware"
    " environment`: `- Accelerator: NVIDIA A100-SXM4-80GB`"
)
_ROW = re.compile(r"/rows/(\d+)(?:/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known of one published row."""

    line: int
    """Where the row stands in the source."""
    outcome: Outcome
    """`agrees`: throughput x FLOPs per token / peak is the printed MFU, and no rule has an error."""
    why: tuple[str, ...]
    """By which convention and peak it agrees; the codes of its errors; or what is missing to check it."""

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {"line": self.line, "verdict": self.outcome, "why": self.why}


def judged(published: Published) -> tuple[tuple[Finding, ...], tuple[Verdict, ...]]:
    """The findings of every rule, and a verdict on every row; it counts errors that the findings no longer list."""
    told: list[Finding] = []
    errors: dict[int, list[str]] = {}
    for rule in rules_for("published"):
        try:
            violations = list(rule.check(published)) if rule.check else []
        except PluginError as error:
            told.append(PLUGIN_FAILED.finding("", printable(f"{rule.code} was not applied: {error}")[:300]))
            continue
        told += rule.told(violations)
        if rule.severity == "error":
            for row in _rows_of(violations):
                errors.setdefault(row, []).append(rule.code)
    verdicts = [_verdict(published, row, errors.get(index)) for index, row in enumerate(published.rows)]
    return tuple(told), tuple(_on_one_device(published, verdicts))


def _on_one_device(published: Published, verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """Rows that name one family of devices do not agree, each on another device of it."""
    fitting: dict[tuple[str | None, int | None], set[str]] = {}
    for row, one in zip(published.rows, verdicts, strict=True):
        if one.outcome == "agrees":
            family, devices = _family(row), _fitting(published, row)
            fitting[family] = fitting.get(family, devices) & devices
    for row, one in zip(published.rows, verdicts, strict=True):
        if one.outcome == "agrees" and not fitting[_family(row)]:
            yield replace(one, outcome="not checked", why=("rows of one device agree only on different ones", *one.why))
        else:
            yield one


def _family(row: PublishedRow) -> tuple[str | None, int | None]:
    where = row.hardware
    return (where.device_model or where.device, where.device_memory)


def _fitting(published: Published, row: PublishedRow) -> set[str]:
    """The devices whose peak makes its MFU right by some convention."""
    mfu, each, machine = row.metrics.mfu, per_device(row), machine_of(published, row)
    if mfu is None or each is None or machine is None:
        return set()
    return {
        device.model
        for device in machine.devices
        for peak in Machine(machine.catalogue, [device]).peaks(dtypes_of(row))
        if any(mfu_agrees(mfu, each, flops, peak) for flops in flops_per_token(row).values())
    }


def _rows_of(violations: Iterable[Violation]) -> list[int]:
    """Indices of the rows that violations are in, each once."""
    found = (_ROW.match(path) for path, _ in violations)
    return list(dict.fromkeys(int(one[1]) for one in found if one))


def _verdict(published: Published, row: PublishedRow, errors: Sequence[str] | None) -> Verdict:
    if errors:
        return Verdict(line=row.line, outcome="wrong", why=tuple(dict.fromkeys(errors)))
    try:
        missing = tuple(_missing(published, row))
        how = None if missing else _how(published, row)
        if how is None and not missing:
            missing = tuple(_open(published, row))
    except PluginError as error:
        why = printable(f"the plugin of vendor {published.vendor} failed: {error}")[:300]
        return Verdict(line=row.line, outcome="not checked", why=(why,))
    if how is None:
        return Verdict(line=row.line, outcome="not checked", why=missing or ("the rule on its MFU was not applied",))
    return Verdict(line=row.line, outcome="agrees", why=(how,))


def _missing(published: Published, row: PublishedRow) -> Iterator[str]:
    """What its MFU would have to be computed from, and is not there."""
    yield from _missing_figures(published, row)
    machine = machine_of(published, row)
    if machine is None:
        yield _no_machine(published, row)
    elif not machine.peaks(dtypes_of(row)):
        yield f"no peak is known for precision {shown(row.precision_text)}"
    if row.model is None:
        yield (
            "no model is named"
            if withheld(row.model_text or "")
            else f"model {shown(row.model_text)} is not in the library"
        )
    elif not flops_per_token(row):
        yield f"FLOPs per token of {row.model} are unknown in this case"


def _missing_figures(published: Published, row: PublishedRow) -> Iterator[str]:
    metrics, cells = row.metrics, published.cells(row)
    if per_device(row) is None:
        if "throughput" in metrics.other:
            yield "what its throughput counts is not said"
        elif metrics.tokens_per_second_per_device or metrics.tokens_per_second:
            yield "its throughput is withheld"
        else:
            yield "its throughput is not understood" if "throughput" in cells else "no throughput is printed"
    if metrics.mfu is None:
        yield "its MFU is not understood" if "mfu" in cells else "no MFU is printed"
    elif metrics.mfu.value is None:
        yield "its MFU is withheld"


def _no_machine(published: Published, row: PublishedRow) -> str:
    where, vendor = row.hardware, published.vendor
    if vendor is None:
        return NO_VENDOR
    if vendor not in installed_vendors():
        return f"no plugin of vendor {vendor} is installed"
    if vendor_trouble(vendor) is not None:
        return f"the plugin of vendor {vendor} cannot be asked"
    named = where.device_model or where.device
    return "its device is unknown" if named is None else f"{vendor} publishes no device {shown(named)}"


def _how(published: Published, row: PublishedRow) -> str | None:
    """By which convention and peak its MFU is right; None where it is by none."""
    mfu, each, machine = row.metrics.mfu, per_device(row), machine_of(published, row)
    assert mfu is not None
    assert each is not None
    assert machine is not None
    peaks = machine.peaks(dtypes_of(row))
    for name, flops in flops_per_token(row).items():
        for peak in peaks:
            if mfu_agrees(mfu, each, flops, peak):
                told = f"MFU by the {name} convention, of {peak / 1e12:.4g} TFLOP/s"
                named = [
                    device.model
                    for device in machine.devices
                    if peak in Machine(machine.catalogue, [device]).peaks(dtypes_of(row))
                ]
                return told if len(named) == len(machine.devices) else f"{told}, if on {' or '.join(named)}"
    return None


def _open(published: Published, row: PublishedRow) -> Iterator[str]:
    """What is not known of a row whose MFU is by no convention that can be computed."""
    mfu, each, machine = row.metrics.mfu, per_device(row), machine_of(published, row)
    if mfu is not None and each is not None and machine is not None:
        found = why_open(row, mfu, each, machine.peaks(dtypes_of(row)))
        if found is not None:
            yield found


def counted(verdicts: Iterable[Verdict]) -> Counter[Outcome]:
    """How many rows there are of each outcome."""
    return Counter(one.outcome for one in verdicts)


def closing(verdicts: Sequence[Verdict]) -> str:
    """One line on many rows: how many were checked, how many agree, and why the others were not checked."""
    count = counted(verdicts)
    left = Counter(one.why[0].partition("; ")[0] for one in verdicts if one.outcome == "not checked")
    chief = sorted(left.items(), key=lambda one: (-one[1], one[0]))
    reasons = [f"{number}: {reason}" for reason, number in chief[:CHIEF]]
    if more := sum(number for _, number in chief[CHIEF:]):
        reasons.append(f"{more}: other reasons")
    because = f" ({'; '.join(reasons)})" if reasons else ""
    rows = f"{len(verdicts)} published row{'s' * (len(verdicts) != 1)}"
    return printable(
        f"{rows}: {count['agrees']} agree, {count['wrong']} wrong, {count['not checked']} not checked{because}"
    )


def by_outcome(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A line for each outcome and reason, with the lines of the source that it is about."""
    grouped: dict[tuple[Outcome, tuple[str, ...]], list[int]] = {}
    for one in verdicts:
        grouped.setdefault((one.outcome, one.why), []).append(one.line)
    for (outcome, why), lines in grouped.items():
        more = f" and {len(lines) - SHOWN_LINES} more" if len(lines) > SHOWN_LINES else ""
        where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:SHOWN_LINES]))}{more}"
        yield printable(f"{where}: {outcome}: {'; '.join(why)}")


SHOWN_LINES = 12
"""Lines of a source that one line names."""

"""The verdict on each row of a published document: it agrees, it is wrong, or it was not checked and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from llmperf.errors import PluginError
from llmperf.types import Finding, Text, Verdict
from llmperf.validation import installed_vendors, judgement, printable, shown, vendor_trouble

from llmperf_published.reading.markdown import plain, withheld
from llmperf_published.rules.flops import model_of, row_flops
from llmperf_published.rules.machine import Machine, dtypes_of, machine_of
from llmperf_published.rules.mfu import agreements, computed_mfu, per_device, printed_flops, why_open
from llmperf_published.rules.vendors import checking_vendor, is_comparison
from llmperf_published.types.document import Published, PublishedRow

CHIEF = 3
"""How many reasons are named in a summary."""
WITH_ADVICE = "{}; {}"
"""Template of a missing fact and what the importer can do about it."""
OWN_PEAKS = Text("peaks of your own: `llmperf import --peaks FILE`")
SAY_DEVICE = Text("say it: `llmperf import --device NAME`")
CONFIDENCE = "peak of confidence {}: {}"
OWN_PEAK = "peak that the importer gave in {}: {}, {}"
OWN_MODEL = "model that the importer gave in {}: {}"
STATED = "stated by {}: {}"
_ROW = re.compile(r"/rows/(\d+)(?:/|$)")


def verdicts(published: Published, findings: Iterable[Finding]) -> tuple[Verdict, ...]:
    """A verdict on every row, from the document and the findings of all rules, also those that are not listed."""
    errors: dict[int, list[str]] = {}
    for finding in findings:
        place = _ROW.match(finding.path)
        if place is not None and finding.severity == "error":
            errors.setdefault(int(place[1]), []).append(finding.code)
    fitting: dict[tuple[str | None, int | None], set[str]] = {}
    judged_rows = []
    for index, row in enumerate(published.rows):
        verdict = _verdict(published, row, errors.get(index))
        family = (row.hardware.device_model or row.hardware.device, row.hardware.device_memory)
        if verdict.outcome == "agrees" and (devices := {model for _, _, model in agreements(published, row)}):
            fitting[family] = fitting.get(family, devices) & devices
        judged_rows.append((family, verdict))
    why = Text(WITH_ADVICE, Text("rows of one device agree only on different ones"), SAY_DEVICE)
    return tuple(
        replace(verdict, outcome="not checked", why=(why, *verdict.why))
        if verdict.outcome == "agrees" and not fitting.get(family, {""})
        else verdict
        for family, verdict in judged_rows
    )


def judged(published: Published) -> tuple[tuple[Finding, ...], tuple[Verdict, ...]]:
    """The listed findings of every rule, and a verdict on every row."""
    result = judgement("published", published)
    return result.findings, result.verdicts


def _verdict(published: Published, row: PublishedRow, errors: Sequence[str] | None) -> Verdict:
    if errors:
        return Verdict(line=row.line, outcome="wrong", why=tuple(dict.fromkeys(errors)))
    try:
        missing = tuple(_missing(published, row))
        mfu, each, machine = row.metrics.mfu, per_device(row), machine_of(published, row)
        columns = list(printed_flops(published, row))
        unchecked = tuple(Text("{} is not checked", shown(header)) for header, by, _ in columns if not by)
        shown_mfu = None if mfu is not None and mfu.stated else computed_mfu(published, row)  # in reports
        origins = tuple(_origins(published, row, machine)) if machine and shown_mfu is not None else ()
        if not missing and mfu is None:
            by = Text("TFLOP/s by the {} convention", next(by for _, by, _ in columns if by))
            return Verdict(line=row.line, outcome="agrees", why=(by, *origins, *unchecked))
        if not missing and mfu is not None and each is not None and machine is not None:
            if found := agreements(published, row):
                name, rate, _ = found[0]
                models = dict.fromkeys(model for how, peak, model in found if (how, peak) == (name, rate))
                by = Text("MFU by the {} convention, of {:.4g} TFLOP/s", name, rate / 1e12)
                by = Text("{}, if on {}", by, " or ".join(models)) if len(models) < len(machine.devices) else by
                why = (by, *_origins(published, row, machine, rate), *unchecked)
                return Verdict(line=row.line, outcome="agrees", why=why)
            reason = why_open(published, row, mfu, each, machine.peaks(dtypes_of(row)))
            missing = (reason or Text("the rule on its MFU was not applied"),)
        missing += (*origins, *unchecked)
    except PluginError as error:
        vendor = checking_vendor(published, row)
        missing = (Text("the plugin of vendor {} failed: {}", vendor, printable(str(error))[:250]),)
    return Verdict(line=row.line, outcome="not checked", why=missing)


def _missing(published: Published, row: PublishedRow) -> Iterator[str]:
    """Missing facts that its MFU would have to be computed from."""
    metrics, cells = row.metrics, published.cells(row)
    if per_device(row) is None:
        if "throughput" in metrics.other:
            yield Text("what its throughput counts is not said")
        elif metrics.tokens_per_second and metrics.tokens_per_second.stated:
            yield Text("the number of devices is not known")
        elif metrics.tokens_per_second_per_device or metrics.tokens_per_second:
            yield Text("its throughput is withheld")
        elif "throughput" in cells:
            yield Text("its throughput is not understood")
        elif unknown := [
            header for table in published.tables[row.table : row.table + 1] for column in table.columns
            if column.name is None and (header := plain(column.header)) in metrics.other
        ][:3]:  # fmt: skip
            headers = Text("not understood: {}", ", ".join(map(shown, unknown)))
            yield Text(WITH_ADVICE, Text("no column is known to be a throughput"), headers)
        else:
            yield Text("no throughput is printed")
    by_flops = "mfu" not in cells and any(by for _, by, _ in printed_flops(published, row))
    if metrics.mfu is None and not by_flops:
        yield Text("its MFU is not understood") if "mfu" in cells else Text("no MFU is printed")
    elif metrics.mfu is not None and not metrics.mfu.stated:
        yield Text("its MFU is withheld")
    machine = machine_of(published, row)
    if machine is None:
        yield _no_machine(published, row)
    elif not machine.peaks(dtypes_of(row)):
        said = row.precision or row.precision_text
        say = Text("say it: `llmperf import --precision NAME`")
        own = Text(WITH_ADVICE, Text("no precision is named"), say)
        yield own if said is None else Text("no peak is known for precision {}", shown(said))
    if row.model is None:
        if withheld(row.model_text or ""):
            none, say = Text("no model is named"), Text("say it: `llmperf import --model NAME`")
        else:
            none = Text("model {} is not in the library", shown(row.model_text))
            say = Text("a model of your own: `llmperf import --model FILE`")
        yield Text(WITH_ADVICE, none, say)
    elif not row_flops(published, row).known:
        yield row_flops(published, row).problem or Text("FLOPs per token of {} are unknown in this case", row.model)


def _no_machine(published: Published, row: PublishedRow) -> str:
    where, vendor = row.hardware, checking_vendor(published, row)
    if vendor is None and is_comparison(published) and (where.device or where.configuration):
        device = shown(where.device or where.configuration)
        return Text(WITH_ADVICE, Text("the vendor of {} is not known", device), OWN_PEAKS)
    if vendor is None:
        none = Text("no vendor is named, and no device that one vendor publishes")
        return Text(WITH_ADVICE, none, Text(WITH_ADVICE, SAY_DEVICE, OWN_PEAKS))
    if vendor not in installed_vendors():
        return Text(WITH_ADVICE, Text("no plugin of vendor {} is installed", vendor), OWN_PEAKS)
    if vendor_trouble(vendor) is not None:
        return Text("the plugin of vendor {} cannot be asked", vendor)
    named = where.device_model or where.device
    return Text("its device is unknown") if named is None else Text("{} publishes no device {}", vendor, shown(named))


def _origins(published: Published, row: PublishedRow, machine: Machine, rate: float | None = None) -> Iterator[str]:
    """Confidence and source of a peak of so many FLOP/s, or any of the importer's; their files and statements."""
    peaks = [machine.catalogue.peak(device, dtype) for device in machine.devices for dtype in dtypes_of(row)]
    file = machine.own_file
    same = [peak for peak in peaks if peak and (peak.flops_per_second == rate or (file and rate is None))]
    yield from dict.fromkeys(
        Text(CONFIDENCE, peak.confidence, printable(peak.source)) if file is None
        else Text(OWN_PEAK, *map(printable, (file, peak.source, peak.date))) for peak in same
    )  # fmt: skip
    own = published.own
    for model in own.models if own else ():
        if model.model.name == row.model and model_of(published, row) is model.model:
            yield Text(OWN_MODEL, printable(model.file), printable(model.model.source))
    if own is not None and own.stated is not None and (names := [*["vendor"] * bool(own.stated.vendor), *row.stated]):
        yield Text(STATED, printable(own.stated.by), printable(", ".join(names)))


def peak_confidence(verdict: Verdict) -> str | None:
    """Confidence of the peak by which the MFU of a row was found right: the lowest of those that it may be.

    `own` for a peak that the importer gave.
    """
    reasons = [why for why in verdict.why if isinstance(why, Text)]
    if any(why.template == OWN_PEAK for why in reasons):
        return "own"
    named = {str(why.values[0]) for why in reasons if why.template == CONFIDENCE}
    return "low" if "low" in named else min(named, default=None)


def closing(verdicts: Sequence[Verdict]) -> str:
    """One line on many rows: how many were checked, how many agree, and why the others were not checked."""
    count = Counter(one.outcome for one in verdicts)
    reasons_left = (one.why[0] for one in verdicts if one.outcome == "not checked")
    left = Counter(
        str(why.values[0]) if isinstance(why, Text) and why.template == WITH_ADVICE else why for why in reasons_left
    )
    chief = sorted(left.items(), key=lambda one: (-one[1], one[0]))
    reasons = [Text("{}: {}", number, reason) for reason, number in chief[:CHIEF]]
    if more := sum(number for _, number in chief[CHIEF:]):
        reasons.append(Text("{}: other reasons", more))
    because = Text(" ({})", Text.joined("; ", reasons)) if reasons else ""
    agreeing = (one for one in verdicts if one.outcome == "agrees")
    importers = (OWN_PEAK, OWN_MODEL, STATED)
    own = sum(any(isinstance(why, Text) and why.template in importers for why in one.why) for one in agreeing)
    given = Text("; {} of those that agree with facts of the importer", own) if own else ""
    rows = Text("{} published row" if len(verdicts) == 1 else "{} published rows", len(verdicts))
    numbers = count["agrees"], count["wrong"], count["not checked"]
    return Text("{}: {} agree, {} wrong, {} not checked{}{}", rows, *numbers, because, given)

"""Rules on published MFU and throughput, against the peak that the vendor publishes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llmperf.accounting import known_conventions
from llmperf.types import Dtype, Text, Violation

from llmperf_published.reading.markdown import plain
from llmperf_published.reading.settings import precisions_in
from llmperf_published.rules import row_rule
from llmperf_published.rules.flops import row_flops
from llmperf_published.rules.machine import HALF, Machine, dtypes_of, machine_of
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import Figure

DTYPES: tuple[Dtype, ...] = ("fp16", "bf16", "tf32", "fp32")
USUAL_ROWS = 8
"""Rows of a table that show by which convention it is computed."""
SPEED = "metrics/tokens_per_second_per_device"


def why_open(published: Published, row: PublishedRow, mfu: Figure, each: Figure, peaks: Sequence[float]) -> str | None:
    """Unknown fact of a row whose MFU no known convention gives; None where the figure is wrong in any case."""
    flops = row_flops(published, row)
    (low, high), (least, most) = each.bounds, mfu.bounds
    if flops.frozen and low > 0 and peaks:
        return Text("part of the model is frozen, so that its FLOPs per token are not known")
    for peak in peaks if low > 0 else ():
        if flops.recomputed is not None and least * peak / high <= flops.recomputed <= most * peak / low:
            return Text("it would be that of hfu with the forward recomputed, which is not said")
        if not flops.length_known and most * peak / low >= flops.least:
            return Text("the sequence length is not known")
    return None


@row_rule("LP311", "error", "A published MFU is token/p/s x FLOPs per token / peak; TFLOP/s likewise")
def published_mfu(published: Published, row: PublishedRow) -> Iterator[Violation]:
    """To the printed digits, by any convention and for any of the devices that the row may mean.

    A figure that could be that of a convention whose inputs the document does not say is not wrong. The peak in fewer
    than 16 bits is not below that in 16, so the share is not above the one of that.
    """
    yield from (("metrics/other", message) for _, _, message in printed_flops(published, row) if message)
    mfu, each, machine = row.metrics.mfu, per_device(row), machine_of(published, row)
    flops = row_flops(published, row).known
    if mfu is None or not mfu.stated or each is None or machine is None or not flops:
        return
    half = machine.peaks(HALF)
    few_bits = row.precision is None and None in precisions_in(row.precision_text)
    if few_bits and half and row_flops(published, row).length_known:
        most = max(*flops.values(), row_flops(published, row).recomputed or 0.0)
        if mfu.bounds[0] > each.bounds[1] * most / half[0]:
            share = f"{100 * (each.value or 0.0) * flops['nominal'] / half[0]:.3g} %"
            because = Text("{} x {:.3g} / {:.4g}, the peak in 16 bits, nominal", each.text, flops["nominal"], half[0])
            yield "metrics/mfu", Text("expected at most {} ({}), found {}", share, because, mfu.text)
    peaks = machine.peaks(dtypes_of(row))
    if peaks and not agreements(published, row) and why_open(published, row, mfu, each, peaks) is None:
        shares = {name: (each.value or 0.0) * count / peaks[-1] for name, count in flops.items()}
        nearest = min(shares, key=lambda name: abs(shares[name] - (mfu.value or 0.0)))
        usual = usual_conventions(published, row)
        hints = [(one, _factor(mfu, each, flops[one], peaks)) for one in usual or flops]
        hints += [(one, _other_peak(mfu, each, flops[one], machine, row)) for one in usual or ["nominal"]]
        name, hint = next(filter(lambda one: one[1], hints), (usual[0] if usual else nearest, ""))
        own = Text(", peak of {}", machine.own_file) if machine.own_file else ""
        because = Text("{} x {:.3g} / {:.4g}, {}{}", each.text, flops[name], peaks[-1], name, own)
        figures = max(3, len(re.sub(r"\D|^0[.0]*", "", mfu.printed or "")))
        expected = f"{100 * shares[name]:#.{figures}g}".rstrip(".") + " %"
        yield "metrics/mfu", Text("expected {} ({}), found {}{}", expected, because, mfu.text, hint)


def usual_conventions(published: Published, row: PublishedRow) -> list[str]:
    """Conventions by which most of the first rows of its table agree; none without such a row."""
    others = [one for one in published.rows if one.table == row.table][:USUAL_ROWS]
    found = Counter(name for one in others for name in {name for name, _, _ in agreements(published, one)})
    return [name for name in row_flops(published, row).known if found[name] and found[name] == max(found.values())]


def agreements(published: Published, row: PublishedRow) -> list[tuple[str, float, str]]:
    """Conventions, peaks and devices by which the MFU of a row is right."""
    mfu, each, machine, dtypes = row.metrics.mfu, per_device(row), machine_of(published, row), dtypes_of(row)
    if mfu is None or not mfu.stated or each is None or machine is None:
        return []
    of_devices = ((one.model, Machine(machine.catalogue, [one]).peaks(dtypes)) for one in machine.devices)
    peaks = sorted((peak, model) for model, peaks in of_devices for peak in peaks)
    return [(name, peak, model) for name, flops in row_flops(published, row).known.items() for peak, model in peaks
            if mfu_agrees(mfu, each, flops, peak)]  # fmt: skip


def printed_flops(published: Published, row: PublishedRow) -> Iterator[tuple[str, str, str]]:
    """Columns of TFLOP/s: the header, the convention that gives the figure, and what a wrong one has to be.

    A header that does not say that it counts one device may count all. Between the MFU x peak and 4/3 of it, a figure
    may count a forward pass that is recomputed.
    """
    each, flops, machine, mfu = per_device(row), row_flops(published, row), machine_of(published, row), row.metrics.mfu
    peaks = machine.peaks(dtypes_of(row)) if machine is not None else []
    shares = [bound * peak for peak in peaks for bound in mfu.bounds] if mfu and mfu.stated else []
    low, high = min(shares, default=0.0), max(shares, default=0.0) * 4 / 3
    table = published.tables[row.table] if row.table in range(len(published.tables)) else None
    for column in table.columns if table else ():
        figure = row.metrics.other.get(header := plain(column.title))
        if column.name != "flops" or figure is None or figure.value is None:
            continue
        devices = 1 if re.search("gpu|chip|device|卡", header.lower()) else row.hardware.world_size
        scales = {1e12, 1e12 / (devices or 1)} if re.match("tflop", figure.unit or "tflop", re.IGNORECASE) else ()
        rates = [replace(figure, value=figure.value * scale, scale=figure.scale * scale) for scale in scales]
        counts = flops.known.items() if each else ()
        by = next((name for name, count in counts for rate in rates if each and mfu_agrees(rate, each, count, 1)), "")
        right = ""
        if devices and rates and not by:
            if peaks and all(rate.bounds[0] > peaks[-1] for rate in rates):
                right = Text("at most {:.4g} TFLOP/s, the peak", peaks[-1] / 1e12)
            elif mfu and shares and not any(one.bounds[1] >= low and one.bounds[0] <= high for one in rates):
                peak = peaks[-1] / 1e12
                right = f"{peak * (mfu.value or 0.0):.4g} TFLOP/s (MFU {mfu.text} x {peak:.4g})"
            elif counts and each and not any(why_open(published, row, rate, each, [1.0]) for rate in rates):
                right = _computed(published, row)[1]
        yield header, by, right and Text("expected {}, found {}", right, f"{header} {figure.text}")


def per_device(row: PublishedRow) -> Figure | None:
    """Throughput of one device, printed or computed from that of all; None where it is withheld."""
    each, whole = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second
    devices = row.hardware.world_size
    if each is not None and each.stated:
        return each
    if whole is None or not whole.stated or not devices:
        return None
    share = (whole.value or 0.0) / devices
    return Figure(text=f"{whole.text} / {devices}", value=share, printed=whole.printed, scale=whole.scale / devices)


def computed_mfu(published: Published, row: PublishedRow) -> float | None:
    """token/p/s x nominal FLOPs per token / peak; None where one is unknown, or the row may mean several peaks."""
    each, flops, machine = per_device(row), row_flops(published, row).known.get("nominal"), machine_of(published, row)
    peaks = machine.peaks(dtypes_of(row)) if machine is not None else []
    if each is None or each.value is None or flops is None or len(peaks) != 1:
        return None
    return each.value * flops / peaks[0]


def mfu_agrees(mfu: Figure, each: Figure, flops: float, peak: float) -> bool:
    """Check whether a throughput that is printed so gives the share of a peak, or of its first three digits.

    Programs compute with 989 TFLOP/s where the vendor prints 989.4.
    """
    (low, high), (least, most) = each.bounds, mfu.bounds
    unit = 10.0 ** (math.floor(math.log10(peak)) - 2)
    slack = 1e-9 * most
    return low * flops / peak <= most + slack and high * flops / (peak // unit * unit) >= least - slack


def _factor(mfu: Figure, each: Figure, flops: float, peaks: Sequence[float]) -> str:
    """The factor by which a figure would be right, if it is a usual one."""
    factors = (
        (100, Text("; a hundredth of it")),
        (0.01, Text("; a hundredfold of it")),
        (0.5, Text("; twice it")),
        (2, Text(", which is right for twice the peak, as with sparsity")),
    )
    for factor, hint in factors:
        moved = replace(mfu, value=(mfu.value or 0.0) * factor, scale=mfu.scale * factor)
        if any(mfu_agrees(moved, each, flops, peak) for peak in peaks):
            return hint
    return ""


def _other_peak(mfu: Figure, each: Figure, flops: float, machine: Machine, row: PublishedRow) -> str:
    """Another dtype or device of the vendor for which a figure would be right."""
    dtypes = dtypes_of(row)
    for dtype in (*dtypes, *(one for one in DTYPES if one not in dtypes)):
        for device, _ in machine.catalogue.devices:
            known = machine.catalogue.peak(device, dtype)
            if known is not None and mfu_agrees(mfu, each, flops, known.flops_per_second):
                return Text(", which is right for the {} peak of {}", dtype, device.model)
    return ""


@row_rule("LP312", "warning", "A published MFU is by the nominal convention")
def mfu_is_nominal(published: Published, row: PublishedRow) -> Iterator[Violation]:
    mfu, by = row.metrics.mfu, dict.fromkeys(name for name, _, _ in agreements(published, row))
    if mfu and by and "nominal" not in by:
        known = known_conventions()  # an extension's own convention has its name alone
        titles = (known[name].title if name in known else name for name in by)
        found = Text("found {}, which is that of {}", mfu.text, " or ".join(titles))
        each = 4 if row_flops(published, row).adapters else 6
        yield "metrics/mfu", Text("expected the MFU of {} x nominal parameters, {}", each, found)


@row_rule("LP313", "error", "No published device computes faster than its peak")
def within_the_peak(published: Published, row: PublishedRow) -> Iterator[Violation]:
    for name, share in (("mfu", row.metrics.mfu), ("hfu", row.metrics.hfu)):
        if share is not None and share.stated and share.bounds[0] > 1:
            yield f"metrics/{name}", Text("expected at most 100 %, found {}", share.text)
    dtypes, machine, (computed, spent) = dtypes_of(row), machine_of(published, row), _computed(published, row)
    peaks = machine.peaks(dtypes) if machine is not None else []
    if peaks and computed > peaks[-1]:
        expected = Text("expected at most {:.4g} TFLOP/s ({})", peaks[-1] / 1e12, "/".join(dtypes))
        yield SPEED, Text("{}, found {}", expected, spent)


@row_rule("LP314", "warning", "A row that says fp32 is not faster than fp32")
def truly_fp32(published: Published, row: PublishedRow) -> Iterator[Violation]:
    machine = machine_of(published, row) if row.precision == "fp32" else None
    if machine is None:
        return
    single, reduced = machine.peaks(("fp32",)), machine.peaks(("tf32",))
    computed, spent = _computed(published, row)
    if single and reduced and single[-1] < computed <= reduced[-1]:
        expected = Text("expected at most {:.4g} TFLOP/s (fp32)", single[-1] / 1e12)
        yield SPEED, Text("{}, found {}; TF32 could", expected, spent)


def _computed(published: Published, row: PublishedRow) -> tuple[float, str]:
    """FLOP/s of one device, nominal, and the computation in words; 0 where they are unknown.

    It is the lowest value that rounds to the printed throughput.
    """
    each, flops = per_device(row), row_flops(published, row)
    nominal = flops.known.get("nominal")
    if each is None or nominal is None or flops.frozen:
        return 0.0, ""
    value = each.value or 0.0
    unit = "" if re.search("[A-Za-z]", each.text) else " token/p/s"
    return each.bounds[0] * nominal, f"{value * nominal / 1e12:.4g} TFLOP/s ({each.text}{unit} x {nominal:.3g})"

"""Rules on published MFU and throughput, against the peak that the vendor publishes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from llmperf.accounting import known_conventions
from llmperf.types import Text, Violation

from llmperf_published.reading.markdown import plain
from llmperf_published.reading.settings import precisions_in
from llmperf_published.reading.vocabulary import squeezed
from llmperf_published.rules import row_rule
from llmperf_published.rules.flops import row_flops
from llmperf_published.rules.machine import HALF, Machine, dtypes_of, machine_of
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import Figure

SPEED = "metrics/tokens_per_second_per_device"
_OF_A_DEVICE = re.compile("gpu|chip|device|卡")
MOST_RECOMPUTED = 4 / 3
"""FLOPs with the whole forward pass recomputed, of those without."""


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
    for header, readings in rates(published, row).items():
        if readings and all(rate_agrees(published, row, rate) is False for rate in readings):
            yield (
                "metrics/other",
                Text("expected {}, found {}", _right_rate(published, row), f"{header} {readings[0].text}"),
            )
    mfu, each, machine = row.metrics.mfu, per_device(row), machine_of(published, row)
    flops = row_flops(published, row).known
    if mfu is None or not mfu.stated or each is None or machine is None or not flops:
        return
    half = machine.peaks(HALF)
    few_bits = row.precision is None and None in precisions_in(row.precision_text)
    if few_bits and half and row_flops(published, row).length_known:
        most = max(*flops.values(), row_flops(published, row).recomputed or 0.0)
        if mfu.bounds[0] > each.bounds[1] * most / half[0]:
            share = _percent(each, flops["nominal"] / half[0])
            because = Text("{} x {:.3g} / {:.4g}, the peak in 16 bits, nominal", each.text, flops["nominal"], half[0])
            yield "metrics/mfu", Text("expected at most {} ({}), found {}", share, because, mfu.text)
    peaks = machine.peaks(dtypes_of(row))
    if peaks and not agreements(published, row) and why_open(published, row, mfu, each, peaks) is None:
        own = Text(", peak of {}", machine.own_file) if machine.own_file else ""
        because = Text("{} x {:.3g} / {:.4g}, nominal{}", each.text, flops["nominal"], peaks[-1], own)
        hint = _hint(mfu, each, flops["nominal"], machine, peaks)
        expected = _percent(each, flops["nominal"] / peaks[-1])
        yield "metrics/mfu", Text("expected {} ({}), found {}{}", expected, because, mfu.text, hint)


def agreements(published: Published, row: PublishedRow) -> list[tuple[str, float, str]]:
    """Conventions, peaks and devices by which the MFU of a row is right."""
    mfu, each, machine, dtypes = row.metrics.mfu, per_device(row), machine_of(published, row), dtypes_of(row)
    if mfu is None or not mfu.stated or each is None or machine is None:
        return []
    of_devices = ((one.model, Machine(machine.catalogue, [one]).peaks(dtypes)) for one in machine.devices)
    peaks = sorted((peak, model) for model, peaks in of_devices for peak in peaks)
    return [
        (name, peak, model)
        for name, flops in row_flops(published, row).known.items()
        for peak, model in peaks
        if mfu_agrees(mfu, each, flops, peak)
    ]


def rates(published: Published, row: PublishedRow) -> dict[str, list[Figure]]:
    """FLOP/s of one device by the header of their column, in each way that the column may be read.

    A header that does not say that it counts one device may count all. None for a unit other than TFLOP/s, and where
    the number of devices is not known.
    """
    found: dict[str, list[Figure]] = {}
    table = published.tables[row.table] if row.table in range(len(published.tables)) else None
    for header in [plain(column.title) for column in table.columns if column.name == "flops"] if table else ():
        figure, devices = row.metrics.other.get(header), row.hardware.world_size
        if figure is None or figure.value is None:
            continue
        counts = (1,) if _OF_A_DEVICE.search(squeezed(header)) else (1, devices) if devices else ()
        unit = re.match("t(era)?flop", figure.unit or "tflops", re.IGNORECASE)
        scales = [1e12 / count for count in counts if unit]
        found[header] = [replace(figure, value=figure.value * scale, scale=figure.scale * scale) for scale in scales]
    return found


def rate_agrees(published: Published, row: PublishedRow, rate: Figure) -> str | Literal[False] | None:
    """The origin of right FLOP/s: a convention, or `MFU` or `HFU` x peak; False for wrong ones, None for unknown."""
    each, flops = per_device(row), row_flops(published, row)
    for name, flops_per_token in flops.known.items():
        if each is not None and mfu_agrees(rate, each, flops_per_token, 1.0):
            return name
    (low, high), products = rate.bounds, _shares_of_peaks(published, row)
    if name := next((name for name, least, most, _ in products if low <= most and high >= least), ""):
        return name
    if products and (high < min(one[1] for one in products) or low > MOST_RECOMPUTED * max(one[2] for one in products)):
        return False
    if each is None or not flops.known:
        return None
    return False if why_open(published, row, rate, each, [1.0]) is None else None


def _shares_of_peaks(published: Published, row: PublishedRow) -> list[tuple[str, float, float, str]]:
    """FLOP/s by the printed MFU and HFU: the share's name, the least, the most, and the computation in words."""
    machine = machine_of(published, row)
    return [
        (name, share.bounds[0] * peak, share.bounds[1] * peak,
         f"{(share.value or 0.0) * peak / 1e12:.4g} TFLOP/s ({name} {share.text} x {peak / 1e12:.4g})")
        for name, share in (("MFU", row.metrics.mfu), ("HFU", row.metrics.hfu)) if share is not None and share.stated
        for peak in (machine.peaks(dtypes_of(row)) if machine is not None else ())
    ]  # fmt: skip


def _right_rate(published: Published, row: PublishedRow) -> str:
    """The FLOP/s that a row should print, by its throughput, otherwise by its MFU."""
    products = _shares_of_peaks(published, row)
    return _computed(published, row)[1] or products[-1][-1]


def per_device(row: PublishedRow) -> Figure | None:
    """Throughput of one device, printed or computed from that of all; None where it is withheld."""
    each, whole = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second
    devices = row.hardware.world_size
    if each is not None and each.stated:
        return each
    if whole is None or not whole.stated or not devices:
        return None
    return Figure(text=f"{whole.text} / {devices}", value=(whole.value or 0.0) / devices)


def computed_mfu(published: Published, row: PublishedRow) -> float | None:
    """token/p/s x nominal FLOPs per token / peak; None where one is unknown, or the row may mean several peaks."""
    each, flops, machine = per_device(row), row_flops(published, row).known.get("nominal"), machine_of(published, row)
    peaks = machine.peaks(dtypes_of(row)) if machine is not None else []
    if each is None or each.value is None or flops is None or len(peaks) != 1:
        return None
    return each.value * flops / peaks[0]


def _percent(each: Figure, flops_per_peak: float) -> str:
    """The share that a throughput gives."""
    return f"{100 * (each.value or 0.0) * flops_per_peak:.3g} %"


def mfu_agrees(mfu: Figure, each: Figure, flops: float, peak: float) -> bool:
    """Check whether a throughput that is printed so gives the share."""
    (low, high), (least, most) = each.bounds, mfu.bounds
    slack = 1e-9 * most
    return low * flops / peak <= most + slack and high * flops / peak >= least - slack


def _hint(mfu: Figure, each: Figure, flops: float, machine: Machine, peaks: Sequence[float]) -> str:
    """Hint at the conditions under which the printed figure would be right, where they can be recognised."""
    if mfu.value is None or each.value is None:
        return ""
    for factor, hint in ((100, Text("; a hundredth of it")), (0.01, Text("; a hundredfold of it"))):
        moved = Figure(text="", value=mfu.value * factor, printed=mfu.printed, scale=mfu.scale * factor)
        if any(mfu_agrees(moved, each, flops, peak) for peak in peaks):
            return hint
    for device, _ in machine.catalogue.devices:
        for dtype in ("fp16", "bf16", "tf32", "fp32"):
            known = machine.catalogue.peak(device, dtype)
            if known is not None and mfu_agrees(mfu, each, flops, known.flops_per_second):
                return Text(", which is right for the {} peak of {}", dtype, device.model)
    doubled = any(mfu_agrees(mfu, each, flops, 2 * peak) for peak in peaks)
    return Text(", which is right for twice the peak, as with sparsity") if doubled else ""


@row_rule("LP312", "warning", "A published MFU is by the nominal convention")
def mfu_is_nominal(published: Published, row: PublishedRow) -> Iterator[Violation]:
    mfu, by = row.metrics.mfu, dict.fromkeys(name for name, _, _ in agreements(published, row))
    if mfu and by and "nominal" not in by:
        known = known_conventions()  # an extension's own convention has its name alone
        titles = (known[name].title if name in known else name for name in by)
        found = Text("found {}, which is that of {}", mfu.text, " or ".join(titles))
        yield "metrics/mfu", Text("expected the MFU of 6 x nominal parameters, {}", found)


@row_rule("LP313", "error", "No published device computes faster than its peak")
def within_the_peak(published: Published, row: PublishedRow) -> Iterator[Violation]:
    for name, share in (("mfu", row.metrics.mfu), ("hfu", row.metrics.hfu)):
        if share is not None and share.stated and share.bounds[0] > 1:
            yield f"metrics/{name}", Text("expected at most 100 %, found {}", share.text)
    dtypes, machine, (computed, spent) = dtypes_of(row), machine_of(published, row), _computed(published, row)
    peaks = machine.peaks(dtypes) if machine is not None else []
    expected = Text("expected at most {:.4g} TFLOP/s ({})", peaks[-1] / 1e12, "/".join(dtypes)) if peaks else ""
    if peaks and computed > peaks[-1]:
        yield SPEED, Text("{}, found {}", expected, spent)
    for header, readings in rates(published, row).items():
        if peaks and readings and all(rate.bounds[0] > peaks[-1] for rate in readings):
            yield "metrics/other", Text("{}, found {}", expected, f"{header} {readings[0].text}")


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

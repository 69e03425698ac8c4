"""Rules on published MFU and throughput, against the peak that the vendor publishes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from llmperf.types import Text, Violation
from llmperf.validation import convention_title

from llmperf_published.rules import rule
from llmperf_published.rules.flops import RowFlops, row_flops
from llmperf_published.rules.layout import place, world_size
from llmperf_published.rules.machine import HALF, Machine, dtypes_of, in_few_bits, machine_of, rows_on_known_devices
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import Figure, RangeEnd


def flops_per_token(published: Published, row: PublishedRow) -> dict[str, float]:
    """FLOPs per token of the row's model by convention, as far as its facts are known."""
    return row_flops(published, row).known


def why_open(published: Published, row: PublishedRow, mfu: Figure, each: Figure, peaks: Sequence[float]) -> str | None:
    """Unknown fact of a row whose MFU no known convention gives; None where the figure is wrong in any case."""
    pairs = [(mfu, each)]
    if mfu.ends is not None and each.ends is not None:
        pairs = list(zip(mfu.numbers, each.numbers, strict=True))
    reasons = [_why_open(row_flops(published, row), share, speed, peaks) for share, speed in pairs]
    return reasons[0] if all(reasons) else None


def _why_open(flops: RowFlops, mfu: Figure, each: Figure, peaks: Sequence[float]) -> str | None:
    (low, high), (least, most) = each.bounds, mfu.bounds
    if low <= 0:
        return None
    found = (flops.unknown(least * peak / high, most * peak / low) for peak in peaks)
    return next((one for one in found if one is not None), None)


@rule("LP311", "error", "A published MFU is token/p/s x FLOPs per token / peak")
def published_mfu(published: Published) -> Iterator[Violation]:
    """To the printed digits, by any convention and for any of the devices that the row may mean.

    A figure that could be that of a convention whose inputs the document does not say is not wrong.
    """
    for index, row, machine in rows_on_known_devices(published):
        mfu, each = row.metrics.mfu, per_device(row)
        if mfu is None or not mfu.stated or each is None:
            continue
        if in_few_bits(row):
            yield from _within_sixteen_bits(published, row, mfu, each, machine, f"/rows/{index}/metrics/mfu")
        flops, peaks = flops_per_token(published, row), machine.peaks(dtypes_of(row))
        if not flops or not peaks or any(mfu_agrees(mfu, each, one, peak) for one in flops.values() for peak in peaks):
            continue
        if why_open(published, row, mfu, each, peaks) is not None:
            continue
        own = Text(", peak of {}", machine.own_file) if machine.own_file else ""
        because = Text("{} x {:.3g} / {:.4g}, nominal{}", each.text, flops["nominal"], peaks[-1], own)
        hint = _hint(mfu, each, flops["nominal"], machine, row)
        expected = _percent(each, flops["nominal"] / peaks[-1])
        found = Text("expected {} ({}), found {}{}, {}", expected, because, mfu.text, hint, place(row))
        yield f"/rows/{index}/metrics/mfu", found


def _within_sixteen_bits(
    published: Published, row: PublishedRow, mfu: Figure, each: Figure, machine: Machine, path: str
) -> Iterator[Violation]:
    """The peak in fewer bits is not below that in 16, so the share is not above the one of that."""
    flops, peaks = flops_per_token(published, row), machine.peaks(HALF)
    if not flops or not peaks or not row_flops(published, row).length_known:
        return
    most = max(*flops.values(), row_flops(published, row).recomputed or 0.0)
    if mfu.bounds[0] > each.bounds[1] * most / peaks[0]:
        share = _percent(each, flops["nominal"] / peaks[0])
        because = Text("{} x {:.3g} / {:.4g}, the peak in 16 bits, nominal", each.text, flops["nominal"], peaks[0])
        yield path, Text("expected at most {} ({}), found {}, {}", share, because, mfu.text, place(row))


def per_device(row: PublishedRow) -> Figure | None:
    """Throughput of one device, printed or computed from that of all; None where it is withheld."""
    each, whole, devices = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second, world_size(row)
    if each is not None and each.stated:
        return each
    if whole is None or not whole.stated or not devices:
        return None
    text = f"{whole.text} / {devices}"
    if whole.ends is not None:
        lower, upper = (RangeEnd(value=end.value / devices, printed=None) for end in whole.ends)
        return Figure(text=text, value=None, ends=(lower, upper))
    return Figure(text=text, value=(whole.value or 0.0) / devices)


def computed_mfu(published: Published, row: PublishedRow) -> float | None:
    """token/p/s x nominal FLOPs per token / peak; None where one is unknown, or the row may mean several peaks."""
    each, flops, machine = per_device(row), flops_per_token(published, row).get("nominal"), machine_of(published, row)
    peaks = machine.peaks(dtypes_of(row)) if machine is not None else []
    if each is None or each.value is None or flops is None or len(peaks) != 1:
        return None
    return each.value * flops / peaks[0]


def _percent(each: Figure, flops_per_peak: float) -> str:
    """The share that a throughput gives, or both ends of a range."""
    shares = [f"{100 * (number.value or 0.0) * flops_per_peak:.3g}" for number in each.numbers]
    return f"{' to '.join(shares)} %"


def mfu_agrees(mfu: Figure, each: Figure, flops: float, peak: float) -> bool:
    """Check whether a throughput that is printed so gives the share; of two ranges, both ends must agree."""
    if mfu.ends is not None and each.ends is not None:
        pairs = zip(mfu.numbers, each.numbers, strict=True)
        return all(mfu_agrees(share, speed, flops, peak) for share, speed in pairs)
    (low, high), (least, most) = each.bounds, mfu.bounds
    slack = 1e-9 * most
    return low * flops / peak <= most + slack and high * flops / peak >= least - slack


def _hint(mfu: Figure, each: Figure, flops: float, machine: Machine, row: PublishedRow) -> str:
    """Hint at the conditions under which the printed figure would be right, where they can be recognised."""
    value, peaks = mfu.value, machine.peaks(dtypes_of(row))
    if value is None or each.value is None:
        return ""
    for factor in (100, 0.01):
        moved = Figure(text="", value=value * factor, printed=mfu.printed, scale=mfu.scale * factor)
        if any(mfu_agrees(moved, each, flops, peak) for peak in peaks):
            return Text("; a hundredfold of it") if factor < 1 else Text("; a hundredth of it")
    for device, _ in machine.catalogue.devices:
        for dtype in ("fp16", "bf16", "tf32", "fp32"):
            peak = machine.catalogue.peak(device, dtype)
            if peak is not None and mfu_agrees(mfu, each, flops, peak.flops_per_second):
                return Text(", which is right for the {} peak of {}", dtype, device.model)
    doubled = any(mfu_agrees(mfu, each, flops, 2 * peak) for peak in peaks)
    return Text(", which is right for twice the peak, as with sparsity") if doubled else ""


@rule("LP312", "warning", "A published MFU is by the nominal convention")
def mfu_is_nominal(published: Published) -> Iterator[Violation]:
    for index, row, machine in rows_on_known_devices(published):
        mfu, each = row.metrics.mfu, per_device(row)
        if mfu is None or not mfu.stated or each is None:
            continue
        flops, peaks = flops_per_token(published, row), machine.peaks(dtypes_of(row))
        by = [name for name, one in flops.items() if any(mfu_agrees(mfu, each, one, peak) for peak in peaks)]
        if by and "nominal" not in by:
            followed = " or ".join(map(convention_title, by))
            found = Text("found {}, which is that of {}, {}", mfu.text, followed, place(row))
            yield f"/rows/{index}/metrics/mfu", Text("expected the MFU of 6 x nominal parameters, {}", found)


@rule("LP313", "error", "No published device computes faster than its peak")
def within_the_peak(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        for name, share in (("mfu", row.metrics.mfu), ("hfu", row.metrics.hfu)):
            if share is not None and any(number.bounds[0] > 1 for number in share.numbers):
                message = Text("expected at most 100 %, found {}, {}", share.text, place(row))
                yield f"/rows/{index}/metrics/{name}", message
    for index, row, machine in rows_on_known_devices(published):
        dtypes = dtypes_of(row)
        peaks = machine.peaks(dtypes)
        computed = _computed(published, row)
        if peaks and computed and computed > peaks[-1]:
            expected = Text("expected at most {:.4g} TFLOP/s ({})", peaks[-1] / 1000000000000.0, "/".join(dtypes))
            path = f"/rows/{index}/metrics/tokens_per_second_per_device"
            yield path, Text("{}, found {}, {}", expected, _spent(published, row), place(row))


@rule("LP314", "warning", "A row that says fp32 is not faster than fp32")
def truly_fp32(published: Published) -> Iterator[Violation]:
    for index, row, machine in rows_on_known_devices(published):
        single, computed = machine.peaks(("fp32",)), _computed(published, row)
        reduced = machine.peaks(("tf32",))
        if row.precision != "fp32" or not single or not computed or computed <= single[-1]:
            continue
        if reduced and computed <= reduced[-1]:
            expected = Text("expected at most {:.4g} TFLOP/s (fp32)", single[-1] / 1000000000000.0)
            path = f"/rows/{index}/metrics/tokens_per_second_per_device"
            yield path, Text("{}, found {}; TF32 could, {}", expected, _spent(published, row), place(row))


def _computed(published: Published, row: PublishedRow) -> float | None:
    """FLOP/s of one device, nominal; the lowest value that rounds to the printed throughput."""
    each, flops = per_device(row), row_flops(published, row)
    nominal = flops.known.get("nominal")
    return None if each is None or nominal is None or flops.frozen else each.bounds[0] * nominal


def _spent(published: Published, row: PublishedRow) -> str:
    each, flops = per_device(row), flops_per_token(published, row)["nominal"]
    assert each is not None
    value = each.bounds[0] if each.value is None else each.value
    unit = "" if re.search("[A-Za-z]", each.text) else " token/p/s"
    return f"{value * flops / 1e12:.4g} TFLOP/s ({each.text}{unit} x {flops:.3g})"

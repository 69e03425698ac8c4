"""An estimate for a terminal: what a buyer needs to know on one page."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping

from llmperf import printable
from llmperf.accounting import layout_text
from llmperf.reporting import sentence, word

from llmperf_estimate.types import Estimate, ExpectedError, StageMemory

GIB = 2**30
LINES = 4
"""Longest entries that a list shows."""
SMALLEST_SHARE = 0.01
"""Smaller parts of the memory are not listed."""


def verdict(estimate: Estimate, language: str) -> str:
    """The answer: throughput, MFU, and whether the memory suffices."""
    speed, error = estimate.tokens_per_second_per_device, estimate.expected_error
    most = max(estimate.memory, key=lambda stage: stage.total_bytes)
    parts = []
    if speed is not None:
        sure = "" if error is None else f" +-{error.throughput_largest:.0%}"
        parts.append(f"{speed:,.0f} token/p/s{sure}")
        headline = next((mfu.value for mfu in estimate.mfu if mfu.headline), None)
        parts.append(word("MFU unknown", language) if headline is None else f"MFU {headline:.1%}")
    elif estimate.fits is not False:
        parts.append(word("throughput unknown", language))
    values = {"used": f"{most.total_bytes / GIB:.1f}", "capacity": f"{(most.capacity_bytes or 0) / GIB:.1f}"}
    fits = {True: "fits: {used} of {capacity} GiB", False: "does not fit: {used} of {capacity} GiB", None: "{used} GiB"}
    parts.append(sentence(fits[estimate.fits], language, **values))
    return word(", ", language).join(parts) + f" ({word('estimated', language)})"


def facts(estimate: Estimate) -> Iterator[tuple[str, str]]:
    """Name and value of each line."""
    layout, batch = estimate.layout, estimate.batch
    spec = estimate.spec
    where = f"{layout.nodes} x {layout.devices_per_node} {estimate.device_model}"
    yield "case", f"{spec.case} ({spec.tuning.framework}, {spec.contract.precision}) on {where}, {layout_text(layout)}"
    yield "overlays", _overlays(estimate)
    if estimate.expected_error is not None:
        yield "expected error", _error(estimate.expected_error, with_throughput=estimate.fits is not False)
    batch_text = f"micro batch {batch.micro_batch} x accumulation {batch.gradient_accumulation}"
    yield from (("changed", str(change)) for change in spec.changes)
    yield "batch", f"{batch_text} x sequence {batch.seq_len}: {batch.tokens_per_step:,} tokens a step"
    methods = dict.fromkeys(stage.method for stage in estimate.memory)
    words = {"fake tensors": "the trainer's own code on tensors without data", "analytic": "formulas"}
    took = f", {sum(use.seconds for use in estimate.tracing):.0f} s" if estimate.tracing else ""
    yield "traced by", " and ".join(words[method] for method in methods) + took
    if estimate.rates is not None:
        yield "rates", f"{estimate.rates.basis}, {estimate.rates.date}: {printable(estimate.rates.source, ' ')}"
    cluster = [link for link in estimate.rates.links if link.scope == "cluster"] if estimate.rates else []
    if layout.nodes > 1 and cluster:
        each = cluster[0].bytes_per_second * layout.devices_per_node * 8e-9
        yield "network", f"{each:,.4g} Gb/s between nodes for each node: {printable(cluster[0].source, ' ')}"
    yield from _memory(estimate)
    yield from _time(estimate)
    yield from _parts(estimate)
    yield "kernels", f"{estimate.kernels:,} launched in a step"
    waits = estimate.host_waits
    if not waits:
        yield "host waits", "unknown" if waits is None else "none"
    for place, wait in enumerate((waits or ())[:LINES]):
        yield "host waits" if place == 0 else "", f"{wait.per_step:g} a step: {wait.operation} at {wait.where}"


def _overlays(estimate: Estimate) -> str:
    """How the tuning of this device differs from that of others, and how to make it the same."""
    here: dict[str, list[str]] = defaultdict(list)
    for change in estimate.spec.changes:
        if change.origin.startswith("overlay "):
            here[change.origin.removeprefix("overlay ")].append(change.path.removeprefix("tuning."))
    changed = [f"{', '.join(paths)} by {name}" for name, paths in here.items()]
    texts = [f"on this device {' and '.join(changed)}"] if changed else ["none changed a setting on this device"]
    texts += [f"other devices: {text}" for text in estimate.tuned_elsewhere]
    if not changed and not estimate.tuned_elsewhere:
        return "none, on this device or on others"
    return f"{'; '.join(texts)}. To compare devices, set the same on each by --set"


def _error(error: ExpectedError, *, with_throughput: bool) -> str:
    method = {"fake tensors": "traces", "analytic": "formulas"}[error.method]
    text = f"memory {error.memory:.0%} in the median, {error.memory_within_tenth} of {error.memory_rows} within 10%"
    if not with_throughput:
        return text
    none = f"; no published throughput by {method} with {' or '.join(error.outside)}, so more is likely"
    kind = f"{error.throughput_rows} published rows by {method} ({error.nearest})"
    figures = f"throughput {error.throughput:.0%} in the median, up to {error.throughput_largest:.0%}, by {kind}"
    return f"{figures}{none if error.outside else ''}; {text}"


def _memory(estimate: Estimate) -> Iterator[tuple[str, str]]:
    for stage in estimate.memory:
        name = "memory" if len(estimate.memory) == 1 else f"memory, stage {stage.stage}"
        yield name, f"{_gib(stage.total_bytes)} GiB{_margin(stage)}"
        beside = (
            "beside tensors unknown"
            if stage.overhead_bytes is None or estimate.rates is None
            else f"beside tensors {stage.overhead_bytes / GIB:.1f} ({estimate.rates.basis})"
        )
        sizes = sorted(stage.at_peak.items(), key=lambda part: -part[1])
        smallest = SMALLEST_SHARE * sum(stage.at_peak.values())
        kinds = [f"{kind} {_gib(size)}" for kind, size in sizes if size >= smallest]
        yield "", f"{', '.join([*kinds, beside])}; most in {stage.phase}, {stage.operation}"
    if estimate.fits is False:
        if estimate.nearest is None:
            yield "nearest that fits", "none found"
        else:
            options = " ".join(f"--set {shlex.quote(setting)}" for setting in estimate.nearest.settings)
            yield "nearest that fits", f"{options}: {estimate.nearest.total_bytes / GIB:.1f} GiB"


def _margin(stage: StageMemory) -> str:
    if stage.capacity_bytes is None:
        return "; the memory of the device is not known"
    left = stage.capacity_bytes - stage.total_bytes
    verdict = f"fits, {left / GIB:.1f} left" if left >= 0 else f"DOES NOT FIT, {-left / GIB:.1f} too much"
    if left >= 0 and stage.overhead_bytes is None:
        verdict = f"the tensors fit, {left / GIB:.1f} left for what a process takes beside them, which is unknown"
    return f" of {stage.capacity_bytes / GIB:.1f}: {verdict}"


def _gib(size: float) -> str:
    """In GiB, with more digits below a tenth."""
    return f"{size / GIB:.1f}" if size >= GIB / 10 else f"{size / GIB:.2g}"


def _time(estimate: Estimate) -> Iterator[tuple[str, str]]:
    time = estimate.time
    if time is None:
        yield "time", f"unknown: {estimate.time_problem}"
        return
    parts = f"computing {time.compute_seconds:.3g}, waiting for communication {time.communication_seconds:.3g}"
    if estimate.layout.pipeline_parallel > 1:
        parts += f", pipeline bubble {time.bubble_seconds:.3g}"
    parts += f", lost otherwise {time.loss_seconds:.3g} (fitted)"
    hidden = time.hidden_communication_seconds
    behind = f" ({hidden:.3g} s of communication behind computation)" if hidden else ""
    yield "step", f"{time.seconds:.3g} s: {parts}{behind}"
    known = [f"{mfu.convention} {mfu.value:.1%}" for mfu in estimate.mfu if mfu.value is not None]
    rates = f"MFU {', '.join(known)}" if known else "MFU unknown without a peak"
    headline = next((mfu for mfu in estimate.mfu if mfu.headline), None)
    if known and headline is not None and headline.peak_flops_per_second is not None:
        rates += f" of {headline.peak_flops_per_second:.4g} FLOP/s {headline.peak_dtype}"
        if headline.weighted_peak is not None and headline.of_weighted_peak is not None:  # products have two dtypes
            weighted = f"{headline.weighted_peak.flops_per_second:.4g} FLOP/s, weighted by the work in each dtype"
            rates += f"; {headline.convention} {headline.of_weighted_peak:.1%} of {weighted}"
    error = estimate.expected_error
    sure = "" if error is None else f" +-{error.throughput_largest:.0%}"
    yield "throughput", f"{estimate.tokens_per_second_per_device:,.0f} token/p/s{sure}; {rates}"


def _parts(estimate: Estimate) -> Iterator[tuple[str, str]]:
    if estimate.time is not None:
        total = estimate.time.seconds
        kinds: dict[str, float] = defaultdict(float)
        phases: dict[str, float] = defaultdict(float)
        for item in estimate.operations:
            kinds[item.kind] += item.seconds or 0.0
            phases[item.phase] += item.seconds or 0.0
        not_computing = {
            "waiting for communication": estimate.time.communication_seconds,
            "pipeline bubble": estimate.time.bubble_seconds,
            "lost otherwise": estimate.time.loss_seconds,
        }
        yield "by operation", _shares({**kinds, **not_computing}, total)
        yield "by phase", _shares(phases, total)
    for place, volume in enumerate(estimate.communication[:LINES]):
        where = "in a node" if volume.scope == "node" else "between nodes"
        time = "" if volume.seconds is None else f", {volume.seconds:.3g} s{' overlapped' if volume.overlaps else ''}"
        what = f"{volume.times:,} x {volume.collective} in {volume.phase} over {volume.ranks} ranks {where}"
        yield "communication" if place == 0 else "", f"{what}, {volume.sent_bytes / 1e9:.3g} GB sent{time}"
    for place, saving in enumerate(estimate.savings[:LINES]):
        share = f" ({saving.seconds / estimate.time.seconds:.0%})" if estimate.time else ""
        yield "would save" if place == 0 else "", f"{saving.seconds:.3g} s{share}: {saving.change}"


def _shares(seconds: Mapping[str, float], total: float) -> str:
    ordered = sorted(seconds.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {spent / total:.0%}" for name, spent in ordered if spent / total >= 0.005)

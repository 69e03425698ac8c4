"""A rank's device: figures rest on its events, its `synchronize()` and its peak of memory."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from llmperf_testing.check import Skip, check, require
from llmperf_testing.checks.environment import environment_is_text
from llmperf_testing.checks.probe import offers_can_be_used, require_line
from llmperf_testing.observations import Bound
from llmperf_testing.vendor import PRECISIONS, VendorSubject

READY_SECONDS = 0.05
APART_SHARE, APART_SECONDS = 0.02, 0.001
"""Events and the host's clock may differ by this much, besides the time between reading one and the other."""
BEYOND_BLOCK, MOST_OF_BLOCK = 0.9, 1.5
"""Smallest and largest share of an allocated block that must show in the peak."""
FASTER = {"datasheet": 1.05, "measured": 1.25, "low": 1.25}
"""How many times its peak a device may compute: a clock may be read early, a measurement was disturbed."""
MEMORY_SHARE = 0.85
"""Smallest share of the memory that torch sees which a probe must show."""


@check(offers_can_be_used, environment_is_text)
def device_can_be_bound(subject: VendorSubject) -> None:
    """`llmperf_setup_device` gives a device in a process of its own, as a rank has it."""
    bound = subject.bound
    require(bound.error is None, f"llmperf_setup_device raised {bound.error}")


@check(device_can_be_bound)
def device_names_its_places(subject: VendorSubject) -> None:
    """It names where tensors go for a runtime that the vendor offers, and the collectives that the probe tells of."""
    bound, offers = subject.bound, subject.probe.offers
    real = any(one.kind == "accelerator" for one in subject.probe.devices) and not subject.probe.simulated
    host = real and bound.places.get("torch") == "cpu"
    require(not host, "an accelerator computes on torch's cpu: say simulated = True")
    named = [runtime for runtime in offers.runtimes if bound.places.get(runtime)]
    require(named, f"it offers {', '.join(offers.runtimes)}, but places has {', '.join(bound.places) or 'no entry'}")
    require_line(bound.collective_backend, "collective_backend")
    expected = offers.collective_backend
    named_there = {part.rpartition(":")[2] for part in expected.lower().split(",")}  # such as cpu:gloo,cuda:nccl
    unknown = sorted(named_there - set(bound.backends)) if bound.backends else []
    require(not unknown, f"torch.distributed knows no {', '.join(unknown)}; it has {', '.join(bound.backends)}")
    require(bound.collective_backend == expected, f"collective_backend {bound.collective_backend!r}, not {expected!r}")


def _worked(subject: VendorSubject) -> Bound:
    subject.rests_on(device_can_be_bound)
    if subject.bound.work is not None:
        raise Skip(subject.bound.work)
    return subject.bound


@check()
def events_can_be_made(subject: VendorSubject) -> None:
    """Events can be made, asked and held against one another around some work."""
    error = _worked(subject).event_error
    require(error is None, f"an event or synchronize() raised {error}")


@check(events_can_be_made)
def asking_an_event_does_not_wait(subject: VendorSubject) -> None:
    """`ready()` answers at once, also while the device is at work."""
    took = min(one.first_ready_seconds for one in subject.bound.stretches)
    require(took < READY_SECONDS, f"ready() takes {took:.3f} s; expected less than {READY_SECONDS}")


@check(events_can_be_made)
def synchronize_blocks(subject: VendorSubject) -> None:
    """When `synchronize()` returns, the device has done all it was given."""
    early = sum(not one.reached for one in subject.bound.stretches)
    require(not early, f"{early} times of {len(subject.bound.stretches)} the event after the work was not yet reached")


@check(asking_an_event_does_not_wait, synchronize_blocks)
def events_agree_with_wall_time(subject: VendorSubject) -> None:
    """The time between two events is the host's between two edges at which it waited for the device."""
    # seconds by which events are outside what the host's clock allows; 0 within
    apart = [
        (max(0.0, one.least_seconds - one.event_seconds, one.event_seconds - one.wall_seconds), one)
        for one in subject.bound.stretches
    ]
    difference, best = min(apart, key=lambda pair: pair[0])
    allowed = APART_SECONDS + APART_SHARE * best.wall_seconds
    clock = f"{best.least_seconds:.4g} to {best.wall_seconds:.4g} s"
    require(difference < allowed, f"events tell {best.event_seconds:.4g} s, the host's clock {clock}")


def _peaks(subject: VendorSubject) -> tuple[int, int, int, int]:
    bound = _worked(subject)
    require(bound.memory_error is None, f"its memory figures raised {bound.memory_error}")
    if any(one is None for one in bound.peaks):
        raise Skip("it cannot know its peak of memory: peak_memory_bytes() is None")
    before, with_block, after, anew = (int(one or 0) for one in bound.peaks)
    return before, with_block, after, anew


@check()
def peak_memory_grows(subject: VendorSubject) -> None:
    """The peak grows by what is taken, and stays when that is given back."""
    before, with_block, after, _ = _peaks(subject)
    block = subject.bound.taken_bytes
    least, most = BEYOND_BLOCK * block, MOST_OF_BLOCK * block
    require(least < with_block - before < most, f"{block} bytes were taken, the peak grew by {with_block - before}")
    require(after - before > least, f"the peak fell from {with_block} to {after} bytes without a reset")


@check(peak_memory_grows)
def peak_memory_resets(subject: VendorSubject) -> None:
    """`reset_peak_memory()` starts the peak anew from what is held then."""
    *_, after, anew = _peaks(subject)
    gone = BEYOND_BLOCK * subject.bound.taken_bytes
    require(after - anew > gone, f"{after} bytes before the reset, {anew} after it, with the block given back")


@check()
def products_stay_below_the_peak(subject: VendorSubject) -> None:
    """No matrix product that the kit times is faster than the peak of its dtype."""
    bound = _worked(subject)
    require(bound.product_error is None, f"a matrix product raised {bound.product_error}")
    model = subject.devices_here()[0].model
    peaks = [(dtype, subject.peak(model, dtype)) for dtype in PRECISIONS if dtype in bound.products]
    compared = [(dtype, peak, bound.products[dtype]) for dtype, peak in peaks if peak is not None]
    if not compared:
        raise Skip("it has no peak of a dtype that the kit can multiply here")
    for dtype, peak, found in compared:
        within = found <= FASTER[peak.confidence] * peak.flops_per_second
        require(within, f"{dtype}: a product ran at {found:.4g} FLOP/s; the peak is {peak.flops_per_second:.4g}")


@check()
def device_is_what_others_see(subject: VendorSubject) -> None:
    """The probed device has the name and the memory that torch, or the host's kernel, gives it."""
    bound, device = _worked(subject), subject.devices_here()[0]
    if subject.probe.simulated:
        raise Skip("the device is simulated")
    if bound.runtime_name is None:
        raise Skip("nothing else here names the device")
    same = _words(bound.runtime_name) & _words(device.model)
    require(same, f"the probe shows {device.model!r}, others {bound.runtime_name!r}; expected simulated = True")
    seen, probed = bound.runtime_memory_bytes, device.memory_bytes
    if seen is not None and probed is not None:
        near = MEMORY_SHARE * seen < probed < seen / MEMORY_SHARE
        require(near, f"{device.model}: {probed} bytes in the probe, {seen} as torch sees it")


def _words(name: str) -> set[str]:
    """The words of a device's name that have a digit, such as `A100` or `8480C`; all words if none has."""
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    return {word for word in words if any(map(str.isdigit, word))} or words


@check(environment_is_text)
def ranks_keep_to_their_share(subject: VendorSubject) -> None:
    """Where ranks share a host, their threads are together no more than its cores."""
    if not (subject.devices_here()[0].kind == "cpu" and subject.devices_here()[0].divisible):
        raise Skip("its ranks have whole devices")
    plan = subject.plan()
    ranks = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    layout = replace(plan.layout, devices_per_node=ranks, data_parallel=ranks)
    shared = replace(plan, worker=replace(plan.worker, layout=layout))
    answers = subject.answered(("shared", ranks), "llmperf_worker_env", plan=shared)
    for name, value in (pair for answer in answers for pair in answer.items()):
        if name.endswith("_NUM_THREADS") and value.isdigit():
            require(int(value) <= 1, f"{name}={value} for each of {ranks} ranks on {ranks} cores; expected 1")


@check(device_can_be_bound)
def device_lets_errors_through(subject: VendorSubject) -> None:
    """Left with an error as a context manager, it does not hide the error."""
    require(not subject.bound.hides_errors, "__exit__ returns true, which hides the error; expected None")


@check(device_can_be_bound)
def device_closes_twice(subject: VendorSubject) -> None:
    """It can be left with an error and closed twice."""
    error = subject.bound.close_error
    require(error is None, f"leaving or closing it raised {error}")

"""A process that binds a device as a rank does, gives it work and memory, and leaves it."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.files import json_files
from llmperf.measuring.rank_process import leave
from llmperf.plugins.discovery import find
from llmperf.plugins.loading import Plugins
from llmperf.types import Device, Plan

from llmperf_testing.check import Skip
from llmperf_testing.observations import Bound, Stretch
from llmperf_testing.programs.fresh import error_line
from llmperf_testing.programs.work import Work, work_for

TRIES = 3
BLOCK_BYTES = 96 * 2**20


def main(arguments: Sequence[str] | None = None) -> None:
    """Write what was seen to `--out`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--vendor", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    json_files.save(given.out, seen(json_files.load(given.plan, Plan), Plugins([find("vendor", given.vendor)])))
    leave(0)


def seen(plan: Plan, plugins: Plugins) -> Bound:
    """From binding to closing, as far as it goes."""
    try:
        device: Device = plugins.ask("llmperf_setup_device", plan=plan, local_rank=0)
        if not hasattr(device, "places"):
            return Bound(error=f"nothing, and gave {device!r}; expected a Device"[:300])
        known = Bound(
            places=dict(device.places),
            collective_backend=device.collective_backend,
        )
    except Exception as error:
        return Bound(error=error_line(error))
    try:
        work = work_for(device, plan.probe.devices[0].kind)
    except Skip as reason:
        known = replace(known, work=str(reason))
    except Exception as error:
        known = replace(known, event_error=error_line(error), memory_error=error_line(error))
    else:
        known = with_products(with_memory(with_stretches(known, device, work), device, work), work)
    return left(replace(known, backends=backends()), device)


def backends() -> tuple[str, ...]:
    """The collectives that torch knows once the device is bound; none where torch is not loaded."""
    torch = sys.modules.get("torch")
    return tuple(torch.distributed.Backend.backend_list) if torch and torch.distributed.is_available() else ()


def with_stretches(known: Bound, device: Device, work: Work) -> Bound:
    """The same with what events tell of work."""
    try:
        stretches = tuple(stretch(device, work) for _ in range(TRIES))
    except Exception as error:
        return replace(known, event_error=error_line(error))
    return replace(known, stretches=stretches)


def stretch(device: Device, work: Work) -> Stretch:
    """Some work between two events, timed by the host too."""
    device.synchronize()
    began = time.perf_counter()
    first = device.event()
    set_at = time.perf_counter()
    work.hand_over()
    handed_over = time.perf_counter()
    last = device.event()
    asked = time.perf_counter()
    last.ready()
    answered = time.perf_counter()
    device.synchronize()
    ended = time.perf_counter()
    reached = bool(last.ready())
    for _ in range(100):  # so that a wrong `synchronize()` does not make the events look wrong
        if last.ready():
            break
        time.sleep(0.05)
    return Stretch(
        wall_seconds=ended - began,
        least_seconds=handed_over - set_at,
        event_seconds=last.seconds_since(first),
        first_ready_seconds=answered - asked,
        reached=reached,
    )


def with_memory(known: Bound, device: Device, work: Work) -> Bound:
    """The same with the peaks around a block that is taken and given back."""
    try:
        gc.collect()
        device.reset_peak_memory()
        peaks = [device.peak_memory_bytes()]
        block = work.take(BLOCK_BYTES)
        device.synchronize()
        peaks.append(device.peak_memory_bytes())
        del block
        gc.collect()
        peaks.append(device.peak_memory_bytes())
        device.reset_peak_memory()
        peaks.append(device.peak_memory_bytes())
    except Exception as error:
        return replace(known, memory_error=error_line(error))
    return replace(known, taken_bytes=BLOCK_BYTES, peaks=tuple(peaks))


def with_products(known: Bound, work: Work) -> Bound:
    """The same with how fast it multiplies, and what others than the plugin say of the device."""
    try:
        products = dict(work.products())
    except Exception as error:
        return replace(known, product_error=error_line(error))
    name, memory = work.device_name(), work.memory_bytes()
    return replace(known, products=products, runtime_name=name, runtime_memory_bytes=memory)


def left(known: Bound, device: Device) -> Bound:
    """The same with how it is left: as a context manager with an error, closed, and closed again."""
    error = RuntimeError("an error of the kit's own")
    try:
        hides = bool(device.__exit__(RuntimeError, error, None))  # type: ignore[func-returns-value]
        device.close()
        device.close()
    except Exception as raised:
        return replace(known, close_error=error_line(raised))
    return replace(known, hides_errors=hides)


if __name__ == "__main__":
    main()

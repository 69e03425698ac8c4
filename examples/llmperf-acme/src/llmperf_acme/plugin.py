"""What llmperf asks of a vendor, answered for Acme.

Nothing heavy is imported here: `llmperf plugins` loads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Device, DeviceSample, PeakFlops, Plan, Precision, Probe


@hookimpl
def llmperf_resources() -> Iterable[Path]:
    """The folder with the tuning overlays."""
    return [Path(__file__).parent / "data"]


@hookimpl
def llmperf_probe() -> Probe:
    """The devices of one model that the tool shows and the visibility variable allows."""
    from llmperf_acme import stand_in  # stand-in
    from llmperf_acme.probe import probe

    seen = probe()
    seen = stand_in.played(seen)  # stand-in
    return seen


@hookimpl
def llmperf_catalogue() -> Iterable[Probe]:
    """Every device of the peak table."""
    from llmperf_acme.catalogue import offers_of, table

    return table().catalogue(offers_of)


@hookimpl
def llmperf_peak_flops(device_model: str, dtype: Precision) -> PeakFlops | None:
    """The figure for exactly this device; None for one that is not in the table."""
    from llmperf_acme.catalogue import table

    return table().peak_flops(device_model, dtype)


@hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Which devices the ranks see."""
    from llmperf_acme import stand_in  # stand-in
    from llmperf_acme.environment import worker_env

    if stand_in.plays(plan):  # stand-in
        return stand_in.worker_env(plan)  # stand-in
    return worker_env(plan)


@hookimpl
def llmperf_query_memory(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """Memory, utilisation, power and temperature of each whole device; None where the tool gives no answer."""
    from llmperf_acme.sampler import samples

    return samples(devices)


@hookimpl
def llmperf_setup_device(plan: Plan, local_rank: int) -> Device:
    """Bind this rank to its device; torch is imported in there, in the worker only."""
    from llmperf_acme import stand_in  # stand-in
    from llmperf_acme.device import bind

    if stand_in.plays(plan):  # stand-in
        return stand_in.StandIn()  # stand-in
    return bind(local_rank)

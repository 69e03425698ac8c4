"""Hook implementations for Acme. Nothing heavy is imported here, since `llmperf plugins` loads this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Device, DeviceSample, Dtype, Facts, PeakFlops, Plan, Probe


@hookimpl
def llmperf_resources() -> Iterable[Path]:
    """The folder with the tuning overlays."""
    return [Path(__file__).parent / "data"]


@hookimpl
def llmperf_facts() -> Facts:
    """The environment variables that results record, and the names by which published tables call the vendor."""
    from llmperf.types import Facts

    return Facts(environment_names=("ACME_VISIBLE_DEVICES",), device_aliases={"acme": ("acme",)})


@hookimpl
def llmperf_probe() -> Probe:
    """The devices of one model that the tool shows and the visibility variable allows."""
    from llmperf_acme import stand_in  # stand-in
    from llmperf_acme.tool import VENDOR

    probe = VENDOR.probe()
    probe = stand_in.played(probe)  # stand-in
    return probe


@hookimpl
def llmperf_catalogue() -> Iterable[Probe]:
    """Every device of the peak table."""
    from llmperf_acme.tool import VENDOR

    return VENDOR.catalogue()


@hookimpl
def llmperf_peak_flops(device_model: str, dtype: Dtype) -> PeakFlops | None:
    """The figure for exactly this device; None for one that is not in the table."""
    from llmperf_acme.tool import VENDOR

    return VENDOR.peak_flops(device_model, dtype)


@hookimpl
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Which devices the ranks see."""
    from llmperf_acme import stand_in  # stand-in
    from llmperf_acme.tool import VENDOR

    if stand_in.plays(plan):  # stand-in
        return stand_in.worker_env(plan)  # stand-in
    return VENDOR.worker_env(plan)


@hookimpl
def llmperf_query_memory(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """Memory, utilisation, power and temperature of each device; None where the tool does not show them."""
    from llmperf_acme.tool import VENDOR

    return VENDOR.samples(devices)


@hookimpl
def llmperf_setup_device(plan: Plan, local_rank: int) -> Device:
    """Bind this rank to its device; torch is imported there, in the worker only."""
    from llmperf_acme import stand_in  # stand-in
    from llmperf_acme.device import bind

    if stand_in.plays(plan):  # stand-in
        return stand_in.StandIn()  # stand-in
    return bind(local_rank)

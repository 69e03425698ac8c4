"""Rates of the planned devices: those that `llmperf peak` has measured on this machine, which are kept, or assumed."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.user_files import cache_dir
from llmperf.planning.host_facts import package_versions
from llmperf.planning.states import LOCAL
from llmperf.planning.vendors import Machine
from llmperf.plugins.facts import joined_facts
from llmperf.plugins.loading import Plugins
from llmperf.types.devices import Probe
from llmperf.types.rates import DeviceRates, wrong_rate

KEPT_DAYS = 30
"""Older measurements are not used."""
MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredHere:
    """A measurement with what must be the same when it is used."""

    host: str
    """Name of this machine."""
    vendor: str
    """Vendor plugin of the devices."""
    driver: str | None
    """Version of the driver."""
    cores: int
    """Cores that this process may use."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of packages that affect the speed; those that both sides have must agree."""
    rates: DeviceRates
    """The measured rates."""


def rates_of(machine: Machine, launcher: str, plugins: Plugins) -> tuple[DeviceRates | None, tuple[str, ...]]:
    """Rates that the devices achieve: as `llmperf peak` measured them on this machine, otherwise as the vendor assumes.

    Also a note if there is a measurement that is not used.
    """
    rates, reason = None, None
    if machine.here and launcher == LOCAL and machine.interpreter is None:
        rates, reason = measured_here(machine.probe, package_versions(joined_facts(plugins).packages))
    rates = rates or plugins.rates(machine.probe.devices[0].model)
    return rates, () if reason is None else (reason,)


def keep(probe: Probe, packages: Mapping[str, str], rates: DeviceRates) -> Path:
    """Keep a measurement in place of an earlier one of the same devices here; UserError if that fails."""
    path = _path(probe)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent}: cannot create: {error.strerror}") from None
    kept = MeasuredHere(
        host=platform.node(),
        vendor=probe.vendor,
        driver=probe.driver,
        cores=_cores(),
        packages=dict(packages),
        rates=rates,
    )
    json_files.save(path, kept)
    return path


def measured_here(probe: Probe, packages: Mapping[str, str]) -> tuple[DeviceRates | None, str | None]:
    """The rates that were measured here, or None and why an existing measurement is not used."""
    path = _path(probe)
    if not probe.devices or probe.simulated or not path.is_file():
        return None, None
    try:
        kept = json_files.decode(json_files.read_bytes(path, MAX_BYTES), MeasuredHere, str(path))
        days = (datetime.datetime.now(datetime.timezone.utc).date() - datetime.date.fromisoformat(kept.rates.date)).days
    except (UserError, ValueError) as error:
        return None, f"measured limits are not used: {error}"
    if (wrong := wrong_rate(kept.rates)) is not None:
        return None, f"measured limits are not used: {path}: {wrong}"
    if kept.rates.basis != "measured" or kept.rates.device_model != probe.devices[0].model:
        return None, f"measured limits are not used: {path} is of another device"
    changes = [
        (name, before, now)
        for name, before, now in (
            ("host", kept.host, platform.node()),
            ("driver", kept.driver, probe.driver),
            ("cores", kept.cores, _cores()),
            *((name, version, packages.get(name, version)) for name, version in kept.packages.items()),
        )
        if before != now
    ]
    if changes:
        name, before, now = changes[0]
        return None, f"measured limits are not used: {name} was {before}, is {now}; `llmperf peak` measures again"
    if not 0 <= days <= KEPT_DAYS:
        return None, f"measured limits are not used: they are of {kept.rates.date}; `llmperf peak` measures again"
    return kept.rates, None


def _path(probe: Probe) -> Path:
    model = probe.devices[0].model if probe.devices else ""
    key = "\0".join((platform.node(), probe.vendor, model))
    return cache_dir("measured-limits") / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _cores() -> int:
    with suppress(AttributeError, OSError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

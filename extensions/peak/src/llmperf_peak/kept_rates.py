"""The rates that were measured on this machine, kept for later runs on it."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmperf import cache_dir, decode, encode_pretty, read_bytes, write_bytes
from llmperf.errors import UserError
from llmperf.types import DeviceRates, Probe

KEPT_DAYS = 30
"""Older rates are not used."""
MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRates:
    """Rates with what must be the same when they are used."""

    machine: Mapping[str, str]
    """Driver, cores that this process may use, and versions of packages; those that both sides have must agree."""
    rates: DeviceRates


def keep(probe: Probe, packages: Mapping[str, str], rates: DeviceRates) -> Path:
    """Keep rates in place of earlier ones of the same devices here; UserError if that fails."""
    path = path_for(probe)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent}: cannot create: {error.strerror}") from None
    write_bytes(path, encode_pretty(KeptRates(machine=_machine(probe, packages), rates=rates)))
    return path


def kept_rates(probe: Probe, packages: Mapping[str, str]) -> DeviceRates | str | None:
    """The rates of these devices that were kept here; a text that says why they are not used; None without any."""
    path = path_for(probe)
    if not probe.devices or probe.simulated or not path.is_file():
        return None
    try:
        kept = decode(read_bytes(path, MAX_BYTES), KeptRates, str(path))
        days = (datetime.datetime.now(datetime.timezone.utc).date() - datetime.date.fromisoformat(kept.rates.date)).days
    except (UserError, ValueError) as error:
        return f"measured rates are not used: {error}"
    now = _machine(probe, packages)
    for name, before in kept.machine.items():
        if before != now.get(name, before):
            return f"measured rates are not used: {name} was {before}, is {now[name]}; `llmperf peak` measures again"
    if not 0 <= days <= KEPT_DAYS:
        return f"measured rates are not used: they are of {kept.rates.date}; `llmperf peak` measures again"
    return kept.rates


def path_for(probe: Probe) -> Path:
    """File of the rates of these devices."""
    model = probe.devices[0].model if probe.devices else ""
    key = "\0".join((platform.node(), probe.vendor, model))
    return cache_dir("measured-rates") / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _machine(probe: Probe, packages: Mapping[str, str]) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"driver": str(probe.driver), "cores": str(cores), **packages}

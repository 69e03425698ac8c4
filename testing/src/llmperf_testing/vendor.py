"""A vendor plugin that is checked: what it answers, asked once for all checks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.launching.agent import rank_environment
from llmperf.launching.run_here import free_port
from llmperf.planning.build import plan_only
from llmperf.planning.ready import worker_env
from llmperf.planning.states import Selection, Site
from llmperf.types import DeviceInfo, Dtype, Plan, Probe
from llmperf.types.devices import device_names

from llmperf_testing.check import Skip
from llmperf_testing.observations import Bound
from llmperf_testing.subject import Subject, kept, observe

PRECISIONS: tuple[Dtype, ...] = get_args(Dtype)
TINY = ("model=llama_tiny", "seq_len=64")
DEVICE_SECONDS = 180.0


class VendorSubject(Subject):
    """One installed vendor plugin."""

    def __init__(self, name: str, settings: tuple[str, ...] = ()) -> None:
        super().__init__("vendor", name, name, settings)

    @property
    def probe(self) -> Probe:
        """Probe of this machine."""
        return self.answered(None, "llmperf_probe")  # type: ignore[no-any-return]

    @kept
    def catalogue(self) -> list[Probe]:
        """The models it knows; Skip if it has no catalogue."""
        return list(self.answered(None, "llmperf_catalogue"))

    def devices_here(self) -> tuple[DeviceInfo, ...]:
        """Devices of this machine; Skip with the reason if there are none."""
        if not self.probe.devices:
            raise Skip(f"no device of {self.name} here: {'; '.join(self.probe.problems) or 'it gives no reason'}")
        return self.probe.devices

    def known_devices(self) -> list[DeviceInfo]:
        """Every device that it has, in its catalogue or here."""
        entries = self.catalogue if self.plugins.answers("llmperf_catalogue") else []
        return [*(device for entry in entries for device in entry.devices), *self.probe.devices]

    def known_models(self) -> list[str]:
        """Every model that it has, once."""
        return list(dict.fromkeys(one.model for one in self.known_devices()))

    def known_names(self) -> list[str]:
        """Every model and alias that it has."""
        return [name for one in self.known_devices() for name in device_names(one)]

    def peak(self, model: str, dtype: Dtype) -> Any:
        """Its answer for a device and a precision; None where it gives a reason instead."""
        found = self.answered((model, dtype), "llmperf_peak_flops", device_model=model, dtype=dtype)
        return None if isinstance(found, str) else found

    def peaks(self) -> Iterator[tuple[str, Dtype, Any]]:
        """Every peak that it gives: model, precision, answer."""
        for model in self.known_models():
            for dtype in PRECISIONS:
                if (peak := self.peak(model, dtype)) is not None:
                    yield model, dtype, peak

    def readings(self, number: object = 0) -> Any:
        """Its readings of the devices here; another number is another reading."""
        indexes = tuple(one.index for one in self.devices_here())
        return self.answered(number, "llmperf_query_memory", devices=indexes)

    def plan(self) -> Plan:
        """A plan for its devices, or for the first of its catalogue; Skip where it has neither."""
        return self._plan

    @kept
    def _plan(self) -> Plan:
        on = None if self.probe.devices else self._elsewhere()
        wanted = Selection("default", settings=TINY)
        try:
            plan = plan_only(wanted, Site(vendor=self.name, devices=1, on=on)).plan
        except UserError as error:
            raise Skip(f"the default case cannot be planned for it: {error}") from None
        if plan is None:
            raise Skip("the default case cannot be laid out on one device of it")
        return plan

    def _elsewhere(self) -> str:
        if not self.plugins.answers("llmperf_catalogue") or not self.catalogue:
            raise Skip("it has neither a device here nor a catalogue to plan for")
        return f"{self.catalogue[0].devices[0].model}:1x1"

    @kept
    def bound(self) -> Bound:
        """Observations of a process that binds a device as a rank does; Skip without a device."""
        self.devices_here()
        plan = self.plan()
        with tempfile.TemporaryDirectory(prefix="llmperf-check-") as folder:
            path = Path(folder) / "plan.json"
            json_files.save(path, plan)
            whole = replace(plan, env=worker_env(plan, self.plugins))
            env = rank_environment(Path(folder), whole, 0, 0, "127.0.0.1", free_port())
            given = {"plan": str(path), "vendor": self.name}
            return observe("device", given, Bound, seconds=DEVICE_SECONDS, env=env)

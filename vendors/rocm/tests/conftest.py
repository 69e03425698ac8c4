"""Machines that are not here: a module that plays `amdsmi`, and commands on PATH that print what a test gives them."""

import json
import sys
from enum import IntEnum
from types import ModuleType

import pytest
from llmperf_rocm import gpus, library

NOT_SHOWN = 0xFFFF


class Library(ModuleType):
    """The calls of `amdsmi` that the plugin makes, on GPUs that a test describes."""

    class AmdSmiException(Exception):
        pass

    class AmdSmiTemperatureType(IntEnum):
        EDGE, HOTSPOT = range(2)

    class AmdSmiTemperatureMetric(IntEnum):
        CURRENT = 0

    def __init__(self, models, broken="", lacks=""):
        super().__init__("amdsmi")
        self.models, self.broken, self.lacks = models, broken, lacks

    def __getattribute__(self, name):
        if name.startswith("amdsmi_") and name == object.__getattribute__(self, "lacks"):
            raise AttributeError(name)
        return super().__getattribute__(name)

    def amdsmi_init(self):
        if self.broken:
            raise self.AmdSmiException(f"Error code:\n\t34 | {self.broken}")

    def amdsmi_get_processor_handles(self):
        return list(range(len(self.models)))

    def amdsmi_get_gpu_asic_info(self, handle):
        return {"market_name": self.models[handle], "target_graphics_version": "gfx942"}

    def amdsmi_get_gpu_driver_info(self, handle):
        return {"driver_version": "6.10.5"}

    def amdsmi_get_gpu_device_uuid(self, handle):
        return f"GPU-{handle}{handle}"

    def amdsmi_get_gpu_device_bdf(self, handle):
        return f"0000:{handle:02x}:00.0"

    def amdsmi_get_gpu_vram_usage(self, handle):
        return {"vram_total": 196592, "vram_used": 1024 * (handle + 1)}

    def amdsmi_get_gpu_activity(self, handle):
        return {"gfx_activity": "N/A" if handle else 97}

    def amdsmi_get_power_info(self, handle):
        return {"socket_power": "N/A", "current_socket_power": NOT_SHOWN, "average_socket_power": 640}

    def amdsmi_get_temp_metric(self, handle, kind, metric):
        if kind == self.AmdSmiTemperatureType.HOTSPOT:
            return 71
        raise self.AmdSmiException("no edge sensor")

    def amdsmi_get_energy_count(self, handle):
        return {"energy_accumulator": 2_000_000, "counter_resolution": 15.25}


class Machines:
    """Makes this process, and those it starts, see the GPUs that a test names."""

    def __init__(self, folder, monkeypatch):
        self._folder, self._patch = folder, monkeypatch
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setitem(sys.modules, "amdsmi", None)
        monkeypatch.setattr(library, "_library", [])
        monkeypatch.setattr(gpus, "_chosen", [])
        for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
            monkeypatch.delenv(name, raising=False)

    def library(self, *models, broken="", lacks=""):
        """A module `amdsmi` that shows these."""
        self._patch.setitem(sys.modules, "amdsmi", Library(list(models), broken, lacks))

    def tool(self, name, script):
        """A command that does this."""
        path = self._folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def amd_smi(self, static, metric, warning=""):
        """`amd-smi` with these documents, after a warning."""
        for name, document in (("static", static), ("metric", metric)):
            (self._folder / name).write_text(f"{warning}{json.dumps(document)}\n")
        self.tool("amd-smi", f"cat {self._folder}/$1")

    def rocm_smi(self, document):
        """`rocm-smi` with this document."""
        (self._folder / "cards").write_text(json.dumps(document))
        self.tool("rocm-smi", f"cat {self._folder}/cards")


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """Machines to play; without one nothing of AMD's is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    yield Machines(folder, monkeypatch)
    library._library.clear()
    gpus._chosen.clear()

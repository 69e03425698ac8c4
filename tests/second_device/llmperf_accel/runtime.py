"""The namespace `torch.accel`, over the compiled stand-in."""

import contextlib
import functools
import os
import sys
import types
from pathlib import Path

import torch
import torch.distributed
from torch.utils.cpp_extension import load

BACKEND = Path(__file__).with_name("backend.cpp")
FOLDER = "ACCEL_BUILD"
"""Variable: where the stand-in is built, once in a session of tests."""


@functools.cache
def install():
    """Give torch the device type `accel` and the collectives `accelcl`; the namespace."""
    folder = Path(os.environ[FOLDER])
    native = load("accel_backend", [str(BACKEND)], extra_cflags=["-O0"], build_directory=str(folder))
    torch.utils.rename_privateuse1_backend("accel")
    torch._register_device_module("accel", namespace(native))
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)

    def collectives(store, rank, size, timeout):
        return native.collectives(torch.distributed.ProcessGroupGloo(store, rank, size, timeout))

    torch.distributed.Backend.register_backend("accelcl", collectives, devices=["accel"])
    return torch.accel


def namespace(native):
    """What `torch.cuda` has, as far as a run needs it."""
    module = types.ModuleType("torch.accel")

    def index_of(device):
        if device is None:
            return native.current_device()
        return device if isinstance(device, int) else torch.device(device).index or 0

    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module._lazy_init = lambda: None
    module.manual_seed_all = lambda seed: None
    module.device_count = native.device_count
    module.current_device = native.current_device
    module.set_device = lambda device: native.set_device(index_of(device))
    module.synchronize = lambda device=None: native.synchronize(index_of(device))
    module.memory_allocated = lambda device=None: native.memory(index_of(device))[0]
    module.max_memory_allocated = lambda device=None: native.memory(index_of(device))[1]
    module.max_memory_reserved = lambda device=None: native.memory(index_of(device))[3]
    module.reset_peak_memory_stats = lambda device=None: native.reset_peak(index_of(device))
    module.empty_cache = native.empty_cache
    module.arrive_after = native.arrive_after
    module.counts = lambda device=None: native.counts(index_of(device))
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.Event = functools.partial(torch.Event, "accel")
    module.Stream = lambda device=None, priority=0: torch.Stream(torch.device("accel", index_of(device)))
    module.current_stream = lambda device=None: torch.accelerator.current_stream(index_of(device))
    module.stream = lambda stream: contextlib.nullcontext()
    sys.modules["torch.accel"] = module
    return module

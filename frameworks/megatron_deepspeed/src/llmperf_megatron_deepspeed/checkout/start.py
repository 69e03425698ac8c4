"""A rank's program: `python -m llmperf_megatron_deepspeed.checkout.start RUN_DIR HOME ARGUMENTS...`.

It prepares the tokens, puts stand-ins where something unused is missing, and runs the checkout's `pretrain_gpt.py` as
it is, in this process. Nothing is written into the checkout.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import platform
import runpy
import signal
import sys
import traceback
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import llmperf

from llmperf_megatron_deepspeed.checkout.command import DATA
from llmperf_megatron_deepspeed.checkout.home import SCRIPT
from llmperf_megatron_deepspeed.checkout.log import FAILURE, PACKAGES

UNUSED = (
    "torchvision",
    "torchvision.transforms",
    "torchvision.datasets",
    "deepspeed.compression",
    "deepspeed.compression.compress",
)
"""torchvision is for its image models; DeepSpeed 0.19.7 took `compress` out."""


class StandIn(ModuleType):
    """A module in which every name is a class that cannot be made."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Missing,), {"__module__": self.__name__})


class _Missing:
    def __init__(self, *_: object, **__: object) -> None:
        kind = type(self)
        raise ImportError(f"{kind.__module__}.{kind.__name__} is not installed here, and a language model needs none")


def provide() -> list[str]:
    """Put a stand-in wherever one of `UNUSED` is not installed; what is there stays. Returns the names replaced."""
    with suppress(ImportError):
        importlib.import_module("transformers")  # before it can take a stand-in for the real torchvision
    replaced = []
    for name in UNUSED:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = StandIn(name)
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, sys.modules[name])
            replaced.append(name)
    return replaced


MAX_MESSAGE = 2_000
MAX_TRACEBACK = 10_000
"""So that the line that holds them stays one, even if each character is escaped."""
REPORTED = ("torch", "deepspeed", "numpy", "transformers", "apex", "flash_attn")


def main(run: Path, home: Path, arguments: list[str]) -> int:
    """Run the script to its end; its exit code."""
    from llmperf_megatron_deepspeed.checkout.start import provide

    plan = llmperf.load_plan(run)
    from llmperf_megatron_deepspeed.checkout.data import prepare

    data = prepare(plan)
    os.chdir(run)  # what the script may leave lying about
    sys.dont_write_bytecode = True
    sys.argv = [str(home / SCRIPT), *(word.replace(DATA, str(data)) for word in arguments)]
    sys.path.insert(0, str(home))
    from llmperf_torchkit.processes import meet_as_agent_says, set_timeouts
    from llmperf_zero.deepspeed_import import skip_inference_kernel

    set_timeouts(plan)
    meet_as_agent_says()
    if plan.probe.on_cpu:
        skip_inference_kernel()
    provide()
    mend()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    print(PACKAGES + json.dumps(packages()), flush=True)
    return 0


def mend() -> None:
    """Take out the two builds that the script does into its own folders, since the options given need neither; give its
    optimizers the torch that they name and do not import.
    """
    import torch
    from megatron import fused_kernels, optimizer
    from megatron.data import dataset_utils

    dataset_utils.compile_helper = lambda: None
    fused_kernels.load = lambda _: None
    optimizer.torch = torch


def packages() -> dict[str, str]:
    """Versions of what the script ran with."""
    found = {"python": platform.python_version()}
    for name in REPORTED:
        if (version := getattr(sys.modules.get(name), "__version__", None)) is not None:
            found[name] = str(version)
    return found


def tell(error: BaseException) -> None:
    """Print the failure for people, and for the watcher."""
    text, kind = "".join(traceback.format_exception(error)), type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    message = str(error)[:MAX_MESSAGE]
    values = {"exception": name, "message": message, "traceback": text[-MAX_TRACEBACK:]}
    with suppress(OSError):
        print(f"\n{FAILURE}{json.dumps(values)}\n{text}", flush=True)


def leave(code: int) -> NoReturn:
    """End at once, whatever threads or other ranks still do."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    try:
        leave(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
    except BaseException as error:
        tell(error)
        leave(1)

"""The vendor kit under its earlier name, for packages that were written for it; it is now `llmperf_vendorkit`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    try:
        return getattr(import_module("llmperf_vendorkit"), name)
    except ModuleNotFoundError:
        if name.startswith("__"):  # such as __path__, for which `from llmperf.vendorkit import NAME` asks first
            raise AttributeError(name) from None
        message = f"{__name__}.{name} is now llmperf_vendorkit.{name}, of the package llmperf-vendorkit"
        raise ImportError(message, name=name) from None

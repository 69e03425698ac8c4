"""The vendor kit under its earlier name, for packages that were written for it; it is now `llmperf_vendorkit`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    try:
        return getattr(import_module("llmperf_vendorkit"), name)
    except ModuleNotFoundError:
        message = f"{__name__}.{name} is now llmperf_vendorkit.{name}, of the package llmperf-vendorkit"
        raise ImportError(message, name=name) from None

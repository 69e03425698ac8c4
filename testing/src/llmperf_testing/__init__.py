"""The conformance kit: what every plugin must do, as checks for pytest and for `llmperf check-plugin`.

    from llmperf_testing import VendorContract

    class TestAcme(VendorContract):
        plugin = "acme"

Only `VendorContract` and `FrameworkContract` need pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmperf_testing.contract import FrameworkContract as FrameworkContract
    from llmperf_testing.contract import VendorContract as VendorContract

_HOMES = {"VendorContract": "llmperf_testing.contract", "FrameworkContract": "llmperf_testing.contract"}

__all__ = ["FrameworkContract", "VendorContract"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'llmperf_testing' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        from llmperf.plugins.mending import pip_command

        raise ImportError(f"{name} needs pytest: {pip_command('install', 'pytest>=8')}") from None

"""The conformance kit: what every plugin must do, as checks for pytest and for `llmperf check-plugin`.

    from llmperf_testing import VendorContract

    class TestAcme(VendorContract):
        plugin = "acme"

Only `VendorContract` and `FrameworkContract` need pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf_testing.contract import FrameworkContract as FrameworkContract
    from llmperf_testing.contract import VendorContract as VendorContract

__all__, _imported = lazily(globals())


def __getattr__(name: str) -> Any:
    try:
        return _imported(name)
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        from llmperf.plugins.mending import pip_command

        raise ImportError(f"{name} needs pytest: {pip_command('install', 'pytest>=8')}") from None

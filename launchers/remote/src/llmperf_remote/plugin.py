"""Hook implementations of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types.remote import OpenLauncher


@hookimpl
def llmperf_open_launcher(name: str, vendor: str | None) -> OpenLauncher:
    """Any launcher, whose nodes are reached by its commands."""
    from llmperf_remote.launchers import installed_launcher

    return installed_launcher(name, vendor)

"""Hook implementations of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Launcher, RemoteNodes
    from llmperf.types.remote import Container


@hookimpl
def llmperf_remote_nodes(launcher: Launcher, python: str, container: Container | None) -> RemoteNodes:
    """The nodes of any launcher, reached by its commands."""
    from llmperf_remote.nodes import Nodes

    return Nodes(launcher, python, container)

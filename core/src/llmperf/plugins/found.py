"""A plugin that was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf import API_VERSION
from llmperf.types.frozen import dataclass

if TYPE_CHECKING:
    from llmperf.hookspecs import Role


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin as the metadata of its distribution announces it."""

    name: str
    role: Role
    module: str
    distribution: str
    version: str
    api_version: int = API_VERSION

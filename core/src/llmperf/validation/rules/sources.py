"""The source of the plugins of a run, as far as it is installed here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from llmperf.plugins.discovery import Found
from llmperf.plugins.installed import distribution as installed_distribution
from llmperf.plugins.installed import source_hash
from llmperf.plugins.installed import version as installed_version
from llmperf.plugins.loading import CORE
from llmperf.types import PluginInfo, Result, Text, Violation
from llmperf.validation.installed import installed
from llmperf.validation.reading import shown
from llmperf.validation.violations import rule

if TYPE_CHECKING:
    from llmperf.types import Plan

_HASH = re.compile(r"[0-9a-f]{64}")
FEWEST_DIGITS = 8
"""Different digits: of 64 that are drawn at random, fewer are once in 10^17 hashes."""


@rule("LP662", "error", "Hashes of plugins' sources are hashes", "result", "plan")
def hashes_are_hashes(document: Result | Plan) -> Iterator[Violation]:
    """Each is null or the 64 hexadecimal digits of a SHA-256, which are not nearly all the same."""
    for path, plugin in _hashed(document):
        found = str(plugin.source_hash)
        if not _HASH.fullmatch(found) or len(set(found)) < FEWEST_DIGITS:
            yield (
                path,
                Text("expected the SHA-256 of the source of {}, found {}", shown(plugin.distribution), shown(found)),
            )


@rule("LP653", "warning", "The source of a plugin is that of its installed version", "result", "plan")
def source_is_installed(document: Result | Plan) -> Iterator[Violation]:
    """A plugin of the same distribution and version has the same source here; one under development is not compared."""
    for path, plugin in _hashed(document):
        expected = _hash_here(plugin.role, plugin.name, plugin.distribution, plugin.version)
        if expected is not None and plugin.source_hash != expected:
            because = Text("the source of {} {} as it is installed here", plugin.distribution, plugin.version)
            yield path, Text("expected {}... ({}), found {}...", expected[:12], because, str(plugin.source_hash)[:12])


def _hashed(document: Result | Plan) -> Iterator[tuple[str, PluginInfo]]:
    for index, plugin in enumerate(document.plugins):
        if plugin.source_hash is not None:
            yield f"/plugins/{index}/source_hash", plugin


@cache
def _hash_here(role: str, name: str, distribution: str, version: str) -> str | None:
    """The hash of a plugin's source here; None unless this distribution and version is installed from a package."""
    known: list[Found] = [CORE, *installed()]
    found = next((one for one in known if (one.role, one.name, one.distribution) == (role, name, distribution)), None)
    if found is None or (found.version or installed_version(distribution)) != version or _editable(distribution):
        return None
    return source_hash(found.module)


def _editable(distribution: str) -> bool:
    """Check whether a distribution is a working copy, whose source may change while its version does not."""
    found = installed_distribution(distribution)
    try:
        origin = json.loads((found and found.read_text("direct_url.json")) or "{}")
    except ValueError:
        return False
    return isinstance(origin, dict) and "dir_info" in origin

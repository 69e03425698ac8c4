"""A fresh interpreter finds, imports and first asks a plugin, with no command on its PATH."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from llmperf.hookspecs import Role
from llmperf.plugins.discovery import Found, find
from llmperf.plugins.loading import Plugins

from llmperf_testing.observations import Fresh

HEAVY = ("torch", "paddle", "deepspeed", "transformers", "tensorflow", "jax", "peft", "accelerate", "datasets")
"""Packages that take long to import or claim a device."""
ABSENT = 9999
"""The index of a device that is not there."""


def seen(role: Role, name: str, settings: Sequence[str]) -> Fresh:
    """Discovery first; import, then ask."""
    found = find(role, name)
    before = loaded()
    start = Fresh(
        imported_by_discovery=found.module.split(".")[0] in sys.modules,
        bare_cpu_seconds=bare_cpu_seconds(),
    )
    began = time.process_time()
    try:
        import_module(found.module)
    except (Exception, SystemExit):
        return start
    seconds = time.process_time() - began
    imported = replace(start, import_cpu_seconds=seconds, heavy_imports=tuple(sorted(loaded() - before)))
    try:
        chosen = Plugins([found])
    except Exception:  # other checks tell why
        return imported
    os.environ["PATH"] = ""
    if found.role == "vendor" and chosen.answers("llmperf_probe"):
        try:
            probe = chosen.ask("llmperf_probe")
        except Exception as error:
            return replace(imported, hook_error=error_line(error), heavy_after_hook=tuple(sorted(loaded())))
        devices = tuple(getattr(one, "index", 0) for one in getattr(probe, "devices", ()))
        reasons = None if devices else tuple(map(str, getattr(probe, "problems", ())))
        errors = tuple(_reading_errors(chosen, devices))
        return replace(imported, reasons=reasons, heavy_after_hook=tuple(sorted(loaded())), reading_errors=errors)
    if found.role == "framework" and chosen.answers("llmperf_plan_workers"):
        return asked_framework(imported, found, tuple(settings))
    return imported


def bare_cpu_seconds() -> float:
    """CPU time of an interpreter that does nothing."""
    before = os.times()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def loaded() -> set[str]:
    """Heavy packages that this process has loaded."""
    return {name for name in HEAVY if name in sys.modules}


def _reading_errors(chosen: Plugins, devices: tuple[int, ...]) -> Any:
    if not chosen.answers("llmperf_query_memory"):
        return
    for asked in (devices, (ABSENT,), ()):
        try:
            chosen.ask("llmperf_query_memory", devices=asked)
        except Exception as error:
            yield f"asked for {asked}: {error_line(error)}"


def asked_framework(known: Fresh, found: Found, settings: tuple[str, ...]) -> Fresh:
    """The same with what its planning raised and loaded."""
    from llmperf.planning.build import plan_only
    from llmperf.planning.states import Selection

    error = None
    try:
        plan_only(Selection("default", framework=found.name, settings=settings))
    except Exception as raised:
        error = error_line(raised)
    return replace(known, hook_error=error, heavy_after_hook=tuple(sorted(loaded())))


def error_line(error: BaseException) -> str:
    """An exception in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]

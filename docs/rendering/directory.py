"""The directory of plugins: docs/plugins.toml and what the conformance kit said of each, docs/plugins.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llmperf.files import json_files
from llmperf.files.user_files import read_toml

from rendering.reference import page, table

FILE = Path(__file__).parents[1] / "plugins.toml"
CHECKS = FILE.with_suffix(".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A plugin as its author lists it."""

    name: str
    role: Literal["vendor", "framework", "extension"]
    package: str
    source: str
    """The https address of its repository, or its folder in this one."""
    license: str
    summary: str


def plugins() -> list[Listed]:
    """The plugins by role and name; UserError for a table with an unknown key, without a key, or that comes twice."""
    listed = [
        json_files.convert(entry, Listed, f"{FILE.name}: {entry.get('name')}") for entry in read_toml(FILE)["plugin"]
    ]
    keys = [(one.role, one.name) for one in listed]
    if twice := {" ".join(key) for key in keys if keys.count(key) > 1}:
        raise ValueError(f"{FILE.name}: listed twice: {', '.join(sorted(twice))}")
    return sorted(listed, key=lambda one: (["vendor", "framework", "extension"].index(one.role), one.name))


def directory_page() -> str:
    """Every listed plugin, with the kit's verdict."""
    checks = json.loads(CHECKS.read_text())
    rows = []
    for one in plugins():
        own = not one.source.startswith("https://")
        link = f"[{one.package}]({f'../../{one.source}/README.md' if own else one.source})"
        rows.append(
            (f"`{one.name}`", one.role, link, one.summary, one.license, _verdict(checks.get(f"{one.role} {one.name}")))
        )
    return page("plugins", table(("Name", "Role", "Package", "For", "License", "Conformance kit"), rows))


def _verdict(check: dict[str, object] | None) -> str:
    if check is None:
        return "not checked"
    failed = f"**{check['failed']} failed**, " if check["failed"] else ""
    return f"{failed}{check['passed']} passed, {check['skipped']} skipped; version {check['version']}, {check['date']}"

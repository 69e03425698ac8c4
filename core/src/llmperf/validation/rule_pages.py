"""Pages of rules, made from the rule and from `data/rules.toml` of its package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from llmperf.files.json_files import read_bytes
from llmperf.files.user_files import read_toml
from llmperf.types.documents import Rule


def rule_page(rule: Rule, module: str) -> str:
    """The page of a rule that a plugin's module gives, as Markdown."""
    if isinstance(rule.page, str):
        return rule.page if rule.page.endswith("\n") else f"{rule.page}\n"
    path = rule.page or Path("data", "rules", f"{rule.code}.md")
    package = Path(import_module(module.partition(".")[0]).__file__ or "").parent
    if not path.is_absolute() and ".." not in path.parts and (file := package / path).is_file():
        return read_bytes(file).decode()
    entry = _entries(package / "data" / "rules.toml").get(rule.code, {})
    applies = entry.get("applies") or ", ".join(rule.kinds) or "what is read"
    severity = f"Severity: {rule.severity}. Applies to: {applies}."
    parts = [f"# {rule.code}: {rule.title}", severity, entry.get("text", "")]
    for name in ("wrong", "right"):
        example = entry.get(name, "").strip()
        if example:
            parts += [f"## {name.capitalize()}", f"```json\n{example}\n```" if example.startswith("{") else example]
        if name == "wrong" and "finding" in entry:
            parts.append(f"```\n{entry['finding']}\n```")
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


@cache
def _entries(path: Path) -> Mapping[str, Mapping[str, Any]]:
    return read_toml(path) if path.is_file() else {}

"""Hooks of mkdocs: pages that are outside `docs/`, the reference of commands, and links between all of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from llmperf.validation.catalogue import installed_pairs, open_catalogue  # noqa: E402

from rendering.commands import commands_page  # noqa: E402

FOLDERS = {
    "Vendors": "vendors/*",
    "Frameworks": "frameworks/*",
    "Launchers": "launchers/*",
    "Extensions": "extensions/*",
    "Core, schemas, tests": "[cst]*",
    "Examples": "examples/*",
}
"""Folders with a README, by the heading in the navigation."""
PROJECT = ("CHANGELOG", "CONTRIBUTING", "SECURITY", "RELEASING")
RULES = "rules/README.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def packages() -> dict[str, dict[str, Path]]:
    """Heading -> page of the site -> README."""
    return {
        heading: {
            f"packages/{readme.parent.name}.md": readme
            for readme in sorted(ROOT.glob(f"{folder}/README.md"))
            if (readme.parent / "pyproject.toml").exists() or readme.parent.parent.name == "examples"
        }
        for heading, folder in FOLDERS.items()
    }


def outside() -> Iterator[tuple[str, Path]]:
    """Each page whose text is outside `docs/`, with its file."""
    for pages in packages().values():
        yield from pages.items()
    yield "overview.md", ROOT / "README.md"
    for name in PROJECT:
        yield f"{name.lower()}.md", ROOT / f"{name}.md"


def on_config(config: Any) -> Any:
    """Fill the navigation's list of packages."""
    for section in config.nav:
        if "Packages" in section:
            section["Packages"] = [
                {heading: [{Path(page).stem: page} for page in pages if page != "packages/schemas.md"]}
                for heading, pages in packages().items()
            ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are outside `docs/`, and the reference of commands."""
    for page, path in outside():
        files.append(File.generated(config, page, abs_src_path=str(path)))
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    for owned in open_catalogue(installed_pairs()).all_rules():
        files.append(File.generated(config, f"rules/{owned.rule.code}.md", content=owned.page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files of the repository become links to their pages; to files that have no page, plain text."""
    if page.file.abs_src_path is None:
        return markdown
    folder = Path(page.file.abs_src_path).resolve().parent
    pages = {Path(file.abs_src_path).resolve(): file.src_uri for file in files if file.abs_src_path}

    def link(match: re.Match[str]) -> str:
        image, label, target, anchor = match.groups()
        path = (folder / target).resolve()
        if "://" in target or target.startswith("mailto:") or not path.exists():
            return match.group()
        uri = pages.get(path / "README.md" if path.is_dir() else path)
        if uri is None:
            return label
        if uri == RULES and label.startswith("LP"):
            uri = f"rules/{label}.md"
        return f"{image}[{label}]({os.path.relpath(uri, os.path.dirname(page.file.src_uri))}{anchor or ''})"

    markdown = LINK.sub(link, markdown)
    return (
        re.sub(r"^\| `([A-Z]+\d+)`", r"| [\1](\1.md)", markdown, flags=re.M) if page.file.src_uri == RULES else markdown
    )

"""Write the JSON Schemas and the pages of docs/reference from the code and its docstrings.

./dev python docs/render.py            # writes what has changed, and lists it
./dev python docs/render.py --check    # lists it only; exit code 1 if there is any
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import llmperf_schemas
from llmperf.files import json_files
from rendering import directory, doors, reference
from rendering.documents import render, target

FOLDER = Path(__file__).parent / "reference"


def rendered() -> Iterator[tuple[Path, str]]:
    """Each file with its text."""
    for name in llmperf_schemas.names():
        yield target(name), json_files.encode_pretty(render(name)).decode()
    for name, page in {**reference.PAGES, **doors.PAGES, "plugins": directory.directory_page}.items():
        yield FOLDER / f"{name}.md", page()
    yield FOLDER.parent / "rules" / "README.md", doors.rules_page()


def main(arguments: list[str]) -> int:
    """Write what has changed, or list it."""
    changed = [(path, text) for path, text in rendered() if not path.exists() or path.read_text() != text]
    for path, text in changed:
        print(path.relative_to(Path(__file__).parents[1]))
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return 1 if changed and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The recipes of container images name folders that exist, and copy all that the packages in them need."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "containers").glob("*.Containerfile"))
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_installs_folders_of_the_clone(recipe: Path) -> None:
    folders = re.findall(r"(?<![\w.])\./[a-z_/]+", recipe.read_text())
    assert {"./core", "./schemas", "./vendors/cpu", "./frameworks/pytorch"} <= set(folders)
    assert [folder for folder in folders if not (ROOT / folder / "pyproject.toml").is_file()] == []


def test_the_targets_of_links_in_packages_are_copied_too() -> None:
    links = [path for path in (ROOT / "core" / "src").rglob("*") if path.is_symlink()]
    targets = [link.resolve().relative_to(ROOT) for link in links]
    assert targets
    for target in targets:
        parents = [str(parent) for parent in (target, *target.parents)]
        assert [pattern for pattern in IGNORED for parent in parents if fnmatch.fnmatch(parent, pattern)] == []

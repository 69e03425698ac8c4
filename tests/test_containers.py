"""The recipes of container images name folders that exist, and copy all that the packages in them need."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "containers").glob("*.Containerfile"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_installs_folders_of_the_clone(recipe):
    folders = re.findall(r"(?<![\w.])\./[a-z_/]+", recipe.read_text())
    assert {"./core", "./schemas", "./vendors/cpu", "./frameworks/pytorch"} <= set(folders)
    assert [folder for folder in folders if not (ROOT / folder / "pyproject.toml").is_file()] == []

"""All distributions have one version, and `scripts/version.py` sets it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_all_distributions_have_one_version_and_the_script_sets_it(tmp_path):
    projects = [*ROOT.glob("pyproject.toml"), *ROOT.glob("*/pyproject.toml"), *ROOT.glob("*/*/pyproject.toml")]
    for path in [ROOT / "scripts" / "version.py", ROOT / "CITATION.cff", *projects]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    script = [sys.executable, str(tmp_path / "scripts" / "version.py")]
    before = subprocess.run(script, capture_output=True, text=True, timeout=30)
    assert before.returncode == 0, before.stderr
    assert subprocess.run([*script, "0.9.0rc1"], capture_output=True, text=True, timeout=30).stdout == "0.9.0rc1\n"
    assert 'version = "0.9.0rc1"' in (tmp_path / "core" / "pyproject.toml").read_text()
    assert subprocess.run([*script, "soon"], capture_output=True, timeout=30).returncode == 1


RECIPES = sorted((ROOT / "containers").glob("*.Containerfile"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_installs_folders_of_the_clone(recipe):
    folders = re.findall(r"(?<![\w.])\./[a-z_/]+", recipe.read_text())
    assert {"./core", "./schemas", "./vendors/cpu", "./frameworks/pytorch"} <= set(folders)
    assert [folder for folder in folders if not (ROOT / folder / "pyproject.toml").is_file()] == []


HEAVY = r"(?:torch|transformers|peft|deepspeed|paddle|pandas|mlflow|wandb|datasets|lm_eval|accelerate|matplotlib)"
IMPORT = re.compile(rf"^(?:(?:import|from) {HEAVY}\b|(?:\w+ = )?pytest\.importorskip\(\"{HEAVY}\b)", re.MULTILINE)


def test_files_that_import_tensor_libraries_are_slow_as_a_whole(request):
    slow = request.config.pluginmanager.get_plugin(str(ROOT / "conftest.py")).SLOW_FILE
    folders = [ROOT / path for path in request.config.getini("testpaths")]
    files = [path for folder in folders for path in folder.rglob("test_*.py") if ".venv" not in path.parts]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}
    heavy = {name for name, text in texts.items() if IMPORT.search(text)}
    assert heavy
    assert {name for name in heavy if not slow.search(texts[name])} == set()

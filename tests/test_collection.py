"""Reading the tests is quick: what takes seconds to import is left to tests that run, or to files that are slow."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
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

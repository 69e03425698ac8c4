"""The example is what `llmperf new` makes, and what it makes works where nothing of it was written by hand."""

from __future__ import annotations

from pathlib import Path

from llmperf.cli.main import call

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "llmperf-acme"
NOT_OURS = {"__pycache__", ".pytest_cache", ".venv", "dist", "runs"}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a package by its path; what tools leave there is not counted."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in files.items() if not NOT_OURS & set(name.parts)}


def test_the_example_is_what_a_new_vendor_is(tmp_path, capsys):
    assert call(["new", "vendor", "acme", "--out", str(tmp_path)]) == 0
    made, kept = contents(tmp_path / "llmperf-acme"), contents(EXAMPLE)
    assert sorted(made) == sorted(kept)
    stale = [name for name in made if made[name] != kept[name]]
    assert not stale, "remove examples/llmperf-acme and run: llmperf new vendor acme --out examples"

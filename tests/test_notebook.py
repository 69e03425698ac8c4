"""The notebook in `examples/`, its cells executed in order, without a kernel."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "results.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(run_folder, monkeypatch):
    pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    runs = run_folder.parent / "runs"
    runs.mkdir()
    run_folder.rename(runs / "20260115-093005-example")
    monkeypatch.chdir(runs.parent)
    names: dict[str, Any] = {}
    shown = [
        displayed(cell, names) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    assert repr(shown[0]) == "<LoadedResults: 1 measured, 0 imported>"
    assert shown[1].tokens_per_second_per_device.item() > 0
    assert shown[2]["count"].item() == 1
    assert shown[3].loss.notna().all()
    assert [axes.get_lines()[0].get_ydata().size for axes in names["axes"]] == [len(names["steps"])] * 2
    assert len(shown[5]) == 10
    assert shown[5].tokens_per_second_per_device.is_monotonic_decreasing


def displayed(cell, names):
    """Executes a cell; the value of its last expression, which a notebook displays."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)

"""The runs of a matrix: order, retries, parts, and controllers that are killed at any moment."""

import itertools
import json
import os
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf_sweep.matrix_file import Cell, Matrix
from llmperf_sweep.matrix_folder import MatrixFolder, document_of, made_for_matrix
from llmperf_sweep.matrix_runs import MatrixRun, PlannedCell, line, runs_of


class Killed(BaseException):
    """The controller is gone."""


NUMBERS = itertools.count()


class FakeRuns:
    """Runs that write a file; each fails as often as `fails` says for its cell. `tick` is called between all steps."""

    def __init__(self, fails=None, tick=lambda: None):
        self.fails = dict(fails or {})
        self.tick = tick
        self.ended = []
        """Cells of the runs that came to their end."""

    def prepare(self, cell):
        self.tick()
        self.cell = cell
        return SimpleNamespace(run_id=f"run-{next(NUMBERS):04}")

    def run(self, plan, folder):
        self.tick()
        folder = folder / plan.run_id
        folder.mkdir()
        self.tick()
        failed = self.fails.get(self.cell, 0) > 0
        self.fails[self.cell] = self.fails.get(self.cell, 0) - 1
        self.ended.append(self.cell)
        (folder / "ended").write_text(json.dumps([self.cell, "failed" if failed else "complete"]))
        self.tick()
        return self.recover(folder)

    def recover(self, folder):
        self.tick()
        if not (folder / "ended").exists():
            return None
        status = json.loads((folder / "ended").read_text())[1]
        metrics = SimpleNamespace(tokens_per_second_per_device=1000.0)
        failure = SimpleNamespace(rank=1, exception=None, message="it failed") if status == "failed" else None
        return SimpleNamespace(status=status, metrics=metrics, failure=failure, findings=())


def matrix_of(count, repeats=1, retries=0, order="cheapest"):
    cells = tuple(Cell(case="default", devices=number) for number in range(1, count + 1))
    return Matrix(name="sweep", folder=Path(), cells=cells, repeats=repeats, retries=retries, order=order)


def planned(matrix, costs=None, refused=()):
    costs = costs or range(1, len(matrix.cells) + 1)
    return {
        cell.identity: PlannedCell(cost=cost, problems=("no such device",) if cell.devices in refused else ())
        for cell, cost in zip(matrix.cells, costs, strict=True)
    }


def worked(folder, matrix, runs, part=None, **known):
    """Run what is left of a matrix; the cells in the order in which they ran, as their number of devices."""
    order = []
    with closing(MatrixFolder(folder, part)) as opened:
        opened.open(document_of(matrix, "local"))
        work = MatrixRun(
            opened, matrix, planned(matrix, **known), runs, {cell.identity: cell.identity for cell in matrix.cells}
        )
        finished = work.run_all(lambda run, whole: order.append((run, whole)))
    numbers = {cell.identity: cell.devices for cell in matrix.cells}
    return finished, work.whole(), [(numbers[run.cell], run.repeat) for run, _ in order]


def test_cheap_cells_run_first_unless_the_file_says_otherwise_and_repeats_after_all_cells(tmp_path):
    matrix = matrix_of(3, repeats=2)
    finished, whole, order = worked(tmp_path, matrix, FakeRuns(), costs=[3e9, 1e9, 2e9])
    assert order == [(2, 1), (3, 1), (1, 1), (2, 2), (3, 2), (1, 2)]
    assert finished
    assert (whole.complete, whole.failed, whole.refused, whole.seconds_left) == (6, 0, 0, 0)
    in_order = matrix_of(3, order="file")
    _, _, order = worked(tmp_path / "in order", in_order, FakeRuns(), costs=[3e9, 1e9, 2e9])
    assert order == [(1, 1), (2, 1), (3, 1)]


def test_failures_are_retried_after_all_others_as_often_as_asked(tmp_path):
    matrix = matrix_of(3, retries=2)
    one, _, three = (cell.identity for cell in matrix.cells)
    _, whole, order = worked(tmp_path, matrix, FakeRuns(fails={one: 1, three: 9}))
    assert order == [(1, 1), (2, 1), (3, 1), (1, 1), (3, 1), (3, 1)]
    assert (whole.complete, whole.failed) == (2, 1)
    _, whole, order = worked(tmp_path, matrix, FakeRuns(fails={three: 9}))
    assert order == []
    assert (whole.complete, whole.failed) == (2, 1)


def test_refused_cells_do_not_stop_the_others(tmp_path):
    finished, whole, order = worked(tmp_path, matrix_of(3), FakeRuns(), refused={2})
    assert finished
    assert order == [(1, 1), (3, 1)]
    assert (whole.runs, whole.complete, whole.refused) == (2, 2, 1)


def test_a_second_controller_is_refused(tmp_path):
    with closing(MatrixFolder(tmp_path, None)):
        for part in (None, (1, 2)):
            with pytest.raises(UserError, match=r"process \d+ on .* works in this folder \(matrix.lock\)"):
                MatrixFolder(tmp_path, part)
    MatrixFolder(tmp_path).close()


def test_parts_work_side_by_side_each_once(tmp_path):
    with closing(MatrixFolder(tmp_path, (1, 3))), closing(MatrixFolder(tmp_path, (2, 3))):
        for part, lock in ((None, "matrix.lock"), ((1, 3), "part-1-of-3.lock"), ((1, 2), "part-1-of-3.lock")):
            with pytest.raises(UserError) as error:
                MatrixFolder(tmp_path, part)
            assert f"works in this folder ({lock})" in str(error.value)
        MatrixFolder(tmp_path, (3, 3)).close()
    MatrixFolder(tmp_path, (1, 2)).close()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (matrix_of(4), "1 cells more, such as default --devices 4"),
        (matrix_of(2), "1 cells fewer, such as default --devices 3"),
        (matrix_of(3, repeats=1), "repeats 1, was 2; only more are accepted"),
    ],
)
def test_a_changed_matrix_does_not_continue(tmp_path, other, message, one_line):
    worked(tmp_path, matrix_of(3, repeats=2), FakeRuns())
    with one_line(message, "choose another folder with --out"):
        worked(tmp_path, other, FakeRuns())


def test_more_repeats_are_further_runs(tmp_path):
    worked(tmp_path, matrix_of(3), FakeRuns())
    assert worked(tmp_path, matrix_of(3, repeats=2), FakeRuns())[2] == [(1, 2), (2, 2), (3, 2)]


def test_more_repeats_leave_each_run_in_its_part():
    for part in (1, 2, 3):
        few, more = (set(runs_of(matrix_of(7, repeats), (part, 3))) for repeats in (2, 4))
        assert few == {run for run in more if run[1] <= 2}


def test_more_retries_and_another_order_are_no_change(tmp_path):
    matrix = matrix_of(2)
    fails = {matrix.cells[0].identity: 1}
    assert worked(tmp_path, matrix, FakeRuns(fails=fails))[1].failed == 1
    assert worked(tmp_path, matrix_of(2, retries=1, order="file"), FakeRuns())[1].complete == 2


@pytest.mark.slow
@given(
    count=st.integers(1, 4),
    repeats=st.integers(1, 3),
    retries=st.integers(0, 2),
    fails=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    parts=st.integers(1, 2),
    kills=st.lists(st.integers(1, 40), max_size=12),
)
@settings(max_examples=25, deadline=None)
def test_killed_controllers_lose_nothing_and_repeat_nothing(
    tmp_path_factory, count, repeats, retries, fails, parts, kills
):
    """Each controller is killed after some steps: before and after each file that it writes, and between them."""
    folder = tmp_path_factory.mktemp("matrix")
    matrix = matrix_of(count, repeats, retries)
    left = {"steps": 0}

    def tick():
        left["steps"] -= 1
        if left["steps"] == 0:
            raise Killed

    runs = FakeRuns({cell.identity: fails[number] for number, cell in enumerate(matrix.cells)}, tick)
    write = json_files.write_bytes

    def write_bytes(path, data):
        tick()
        write(path, data)
        tick()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("llmperf_sweep.matrix_folder.write_bytes", write_bytes)
        patch.setattr(json_files.os, "fsync", lambda _: None)
        patch.setattr(Path, "rename", renaming(Path.rename, tick))
        for number in range(len(kills) + parts):
            left["steps"] = kills[number] if number < len(kills) else 0
            try:
                worked(folder, matrix, runs, part=(number % parts + 1, parts))
            except Killed:
                continue
    states = [json.loads(path.read_text()) for path in (folder / "cells").glob("*.json")]
    folders = {path.name: json.loads((path / "ended").read_text()) for path in (folder / "runs").iterdir()}
    assert len(states) == count * repeats
    assert len(folders) == len(runs.ended), "each run that came to its end is kept"
    recorded = [attempt for state in states for attempt in state["attempts"] if attempt["state"] != "unfinished"]
    assert sorted(attempt["run"] for attempt in recorded) == sorted(folders), "each of them is recorded once"
    for state in states:
        outcomes = [folders[attempt["run"]] for attempt in state["attempts"] if attempt["run"] in folders]
        assert all(cell == state["cell"] for cell, _ in outcomes)
        ended = [outcome for _, outcome in outcomes]
        assert ended.count("complete") <= 1
        assert ended[-1] == "complete" or ended == ["failed"] * (retries + 1), "nothing is left to do"
    assert not list((folder / "cells").glob(".*"))


def renaming(rename, tick):
    def killed_before_or_after(path, target):
        tick()
        moved = rename(path, target)
        tick()
        return moved

    return killed_before_or_after


def test_a_folder_of_other_runs_is_refused(tmp_path):
    assert not made_for_matrix(tmp_path / "new")
    (tmp_path / "slurm-12_1.out").touch()
    assert not made_for_matrix(tmp_path)
    worked(tmp_path, matrix_of(1), FakeRuns())
    assert made_for_matrix(tmp_path)
    (tmp_path / "other" / "20260101-default-cpu-zero-1f2e").mkdir(parents=True)
    with pytest.raises(UserError, match="found 20260101-default-cpu-zero-1f2e/; choose another --out"):
        made_for_matrix(tmp_path / "other")


@pytest.mark.parametrize("name", ["../../elsewhere", "/tmp/elsewhere", "..", "a/b"])
def test_a_state_cannot_name_a_folder_outside(tmp_path, name):
    matrix = matrix_of(1)
    worked(tmp_path, matrix, FakeRuns())
    (file,) = (tmp_path / "cells").iterdir()
    state = json.loads(file.read_text())
    state["attempts"][0] |= {"run": name, "state": "running"}
    file.write_text(json.dumps(state))
    with pytest.raises(UserError, match="with run folders below runs/, found others"):
        worked(tmp_path, matrix, FakeRuns())


def test_a_lock_that_is_a_pipe_is_refused(tmp_path):
    folder = tmp_path / "out"
    worked(folder, matrix_of(1), FakeRuns())
    (folder / "matrix.lock").unlink()
    os.mkfifo(folder / "matrix.lock")
    with pytest.raises(UserError, match=r"matrix.lock: expected a regular file"):
        worked(folder, matrix_of(1), FakeRuns())


def test_time_left_follows_the_costs():
    assert line([(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]) == pytest.approx((1.0, 2.0))
    assert line([(2.0, 5.0)]) == (0.0, 2.5)
    assert line([(1.0, 5.0), (2.0, 3.0)]) == (4.0, 0.0)
    assert line([(1.0, 1.0), (2.0, 8.0)])[0] == 0

"""Results ranked: one contract at a time, repeats together, imported rows beside runs they may be compared with."""

from dataclasses import replace
from pathlib import Path

import llmperf_schemas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf.files.json_files import convert
from llmperf.reporting import result_sheet
from llmperf.reporting.overview import ordered
from llmperf.types import Result, Row, Sheet, Source
from llmperf_compare.ranking import standings


def run(name="run", speed=100.0, **changed):
    """The sheet of a result."""
    result = convert(llmperf_schemas.example("result") | {"run_id": name} | changed, Result, "result")
    metrics = replace(result.metrics, tokens_per_second_per_device=speed)
    return result_sheet(replace(result, metrics=metrics), Path(f"nowhere/{name}/result.json"), ())


def imported(measured, speed=90.0, outcome="agrees", **contract):
    """A row of a document on the model of a run, with the parts of its contract that every table prints."""
    stated = {name: measured.contract[name] for name in ("model", "precision", "seq_len", "global_batch")} | contract
    cells = {"model": measured.cell("model").value, "device": "1x8 X", "status": outcome}
    overview = [Row(key=key, label=key, value=value) for key, value in cells.items()]
    overview += [Row(key="tokens_per_second_per_device", label="token/p/s", value=speed),
                 Row(key="mfu_computed", label="MFU", value=0.4)]  # fmt: skip
    source = Source(kind="published", path=Path("x"), document=None)
    return Sheet(name="row", title="row", source=source, overview=tuple(overview), sections=lambda: (),
                 contract=stated, measured=False)  # fmt: skip


def test_contracts_are_not_ranked_together():
    ours = run("a", 100.0)
    made = standings([ours, replace(run("b", 200.0), contract=dict(ours.contract) | {"seed": "7"})])
    assert [standing.entries[0].speed for standing in made] == [200.0, 100.0]


def test_an_imported_row_of_another_batch_or_that_says_little_is_apart():
    ours = run()
    assert [standing.measured for standing in standings([imported(ours, global_batch="99999"), ours])] == [True, False]
    row = imported(ours)
    row = replace(row, contract={"model": ours.contract["model"], "precision": ours.contract["precision"]})
    assert len(standings([row, ours])) == 2


def test_models_with_runs_are_before_models_of_documents():
    ours = run()
    row = imported(ours)
    other = replace(row, overview=tuple(replace(cell, value="a_model") if cell.key == "model" else cell
                                        for cell in row.overview))  # fmt: skip
    assert [standing.model for standing in standings([other, ours])] == [ours.cell("model").text, "a_model"]


def test_the_worst_run_gives_the_verdict_and_failed_runs_no_figure():
    failure = {"rank": 1, "reason": "killed", "exception": None, "message": "killed", "log_tail": []}
    failed = run("b", 900.0, status="failed", failure=failure)
    (standing,) = standings([run("a", 100.0), failed])
    (entry,) = standing.entries
    assert (entry.verdict, entry.speed, entry.figures["tokens_per_second_per_device"].runs) == ("failed", 100.0, 1)


def test_verdicts_of_imported_rows():
    rows = [imported(run(), 90.0 - index, outcome) for index, outcome in enumerate(("agrees", "not checked", "wrong"))]
    (standing,) = standings(rows)
    assert [entry.verdict for entry in standing.entries] == ["valid", "unchecked", "errors"]


@pytest.mark.slow
@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=8))
def test_the_fastest_first_and_no_run_is_lost(speeds):
    ours = run()
    sheets = [replace(run(f"r{index}", speed), repeats=("kind", index % 3)) for index, speed in enumerate(speeds)]
    (standing,) = standings(sheets)
    medians = [entry.speed for entry in standing.entries]
    assert medians == sorted(medians, reverse=True)
    assert sum(len(entry.sheets) for entry in standing.entries) == len(speeds)
    assert standing.contract == ours.contract


def test_entries_of_one_contract_name_the_settings_in_which_they_differ():
    example = llmperf_schemas.example("result")
    change = {"path": "tuning.gradient_checkpointing", "case_value": False, "value": True, "origin": "--set"}
    other = run("b", 50.0, tuning=example["tuning"] | {"gradient_checkpointing": True},
                fix_hp=[*example["fix_hp"], change])  # fmt: skip
    entries = standings([run("a", 100.0), other])[0].entries
    assert [dict(entry.settings) for entry in entries] == [
        {"gradient_checkpointing": "false"}, {"gradient_checkpointing": "true"}]  # fmt: skip
    assert [dict(entry.settings) for entry in standings([run("a"), run("b")])[0].entries] == [{}]


def test_a_disturbed_run_ranks_below_those_that_were_not():
    busy = llmperf_schemas.example("result")["metrics"] | {"other_cpu_share": 0.73}
    loud, quiet = replace(run("loud", 200.0, metrics=busy), repeats="another kind"), run("quiet", 100.0)
    (standing,) = standings([loud, quiet])
    assert [(entry.sheets[0].name, entry.disturbed) for entry in standing.entries] == [("quiet", False), ("loud", True)]
    assert [sheet.name for sheet in ordered([loud, quiet])] == ["quiet", "loud"]
    assert "disturbed" in str(loud.cell("status").text)


def test_half_of_the_repeats_disturb_an_entry():
    busy = llmperf_schemas.example("result")["metrics"] | {"other_cpu_share": 0.73}
    one_of_three = [run("a", metrics=busy), run("b"), run("c")]
    assert not standings(one_of_three)[0].entries[0].disturbed
    assert standings(one_of_three[:2])[0].entries[0].disturbed

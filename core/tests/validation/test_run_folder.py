"""A result beside the plan and the records it was computed from: every edit is found."""

import json
import os
import shutil

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.validation.check import validate_path
from llmperf.validation.run_folder import run_folder_findings


def codes(run):
    return {finding.code for file in validate_path(run / "result.json") for finding in file.findings}


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_run_as_it_was_left_is_clean(run_folder):
    assert [(file.kind, file.findings) for file in validate_path(run_folder)] == [
        ("plan", ()),
        ("result", ()),
        ("record", ()),
        ("record", ()),
    ]


def test_figures_raised_in_agreement_are_found(run_folder, ran):
    def double(result):
        metrics = result["metrics"]
        metrics["window_seconds"] /= 2
        for name in ("tokens_per_second", "tokens_per_second_per_device"):
            metrics[name] *= 2
        metrics["step_seconds"] = None
        for mfu in result["mfu"]:
            mfu["value"] *= 2
            mfu["of_measured_peak"] *= 2
        result["sections"]["roofline"] |= {"achieved_flops_per_second": None, "share_of_attainable": None}

    edit(run_folder / "result.json", double)
    assert codes(run_folder) == {"LP703"}
    line = ran(1, "validate", run_folder).out.splitlines()[0]
    assert line.endswith("LP703 error expected 800.0 (computed again from the records), found 1600.0")


def test_an_edited_plan_is_found(run_folder):
    edit(run_folder / "plan.json", lambda plan: plan["peak"].update(flops_per_second=8e10))
    assert codes(run_folder) == {"LP701", "LP703"}


def test_edited_records_are_found_even_with_a_new_hash(run_folder):
    path = run_folder / "records" / "rank-00001.jsonl"
    before = path.read_text()
    path.write_text(before.replace('"window_seconds":3.84', '"window_seconds":1.92'))
    assert path.read_text() != before
    # the other rank is slower, so no figure moves: the hash tells, and the rank's own steps
    assert codes(run_folder) == {"LP701", "LP642", "LP646"}
    other = run_folder / "records" / "rank-00000.jsonl"
    other.write_text(other.read_text().replace('"window_seconds":3.84', '"window_seconds":1.92'))
    assert codes(run_folder) == {"LP701", "LP703", "LP642", "LP646"}


def test_a_configuration_file_that_is_not_the_plans_is_found(run_folder):
    file = run_folder / "files" / "ds_config.json"
    file.parent.mkdir()
    file.write_text(json.loads((run_folder / "plan.json").read_text())["worker"]["files"][file.name])
    assert codes(run_folder) == set()
    file.write_text("{}")
    assert codes(run_folder) == {"LP645"}
    file.unlink()
    assert codes(run_folder) == set()


def test_a_record_that_is_gone_is_found(run_folder):
    (run_folder / "records" / "rank-00001.jsonl").unlink()
    assert codes(run_folder) == {"LP702", "LP703"}


def test_without_its_records_a_run_is_not_computed_again(run_folder):
    shutil.rmtree(run_folder / "records")
    (file,) = validate_path(run_folder / "result.json")
    assert [finding.code for finding in file.findings] == ["LP702", "LP702", "LP702", "LP703"]
    assert file.findings[-1].message.startswith("the figures cannot be computed again: 3 missing: ")


def test_a_listed_file_outside_of_the_folder_is_not_opened(run_folder, monkeypatch):
    secret = run_folder.parent / "secret"
    secret.write_text("x")
    (run_folder / "link").symlink_to(secret)
    (run_folder / "folder").symlink_to(run_folder.parent)
    os.mkfifo(run_folder / "pipe")
    names = [
        "../secret",
        str(secret),
        "link",
        "folder/secret",
        "pipe",
        "records",
        "a\0b",
        "x" * 5000,
        "",
        ".",
        "./plan.json",
    ]
    edit(run_folder / "result.json", lambda result: result["files"].update(dict.fromkeys(names, "0" * 64)))
    (file,) = validate_path(run_folder / "result.json")
    assert [one.code for one in file.findings if one.code != "LP668"] == ["LP702"] * len(names)
    assert not any("SHA-256" in one.message for one in file.findings)


@pytest.mark.parametrize("name", ["plan.json", "records", "records/rank-00000.jsonl", "memory.jsonl"])
def test_a_link_in_the_place_of_a_source_is_not_followed(run_folder, name):
    elsewhere = run_folder.parent / "elsewhere"
    (run_folder / name).rename(elsewhere) if (run_folder / name).exists() else elsewhere.touch()
    (run_folder / name).symlink_to(elsewhere)
    assert "LP703" not in codes(run_folder)


@pytest.mark.parametrize("name", ["memory.jsonl", "machine.json", "records/rank-00009.jsonl"])
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_keeps_the_figures_from_being_computed_again_is_told(run_folder, name, kind):
    """Or a link beside edited figures would hide that they are."""
    if kind == "folder":
        (run_folder / name).mkdir()
    else:
        (run_folder.parent / "elsewhere").touch()
        (run_folder / name).symlink_to(run_folder.parent / "elsewhere")
    assert codes(run_folder) == {"LP702"}


def test_a_plan_that_makes_no_sense_is_a_finding(run_folder):
    edit(run_folder / "plan.json", lambda plan: plan["probe"].update(devices=[]))
    assert "LP703" in codes(run_folder)
    (run_folder / "plan.json").write_text("{}")
    assert "LP703" in codes(run_folder)


def test_a_result_without_hashes_is_a_warning(run_folder):
    edit(run_folder / "result.json", lambda result: result.update(files={}))
    (file,) = validate_path(run_folder / "result.json")
    assert [(one.code, one.path) for one in file.findings] == [
        ("LP704", "/files/plan.json"),
        ("LP704", "/files/ending.json"),
        ("LP704", "/files/records~1agent-000.json"),
        ("LP704", "/files/records~1rank-00000.jsonl"),
        ("LP704", "/files/records~1rank-00001.jsonl"),
    ]
    assert not file.failed


def alone(run_folder):
    """A folder with the result and nothing beside it."""
    folder = run_folder.parent / "alone"
    folder.mkdir()
    (run_folder / "result.json").rename(folder / "result.json")
    return folder


def test_a_result_by_itself_is_judged_by_itself_which_is_told(run_folder, tmp_path, capsys):
    folder = alone(run_folder)
    (file,) = validate_path(folder)
    assert [(one.code, one.severity, one.path) for one in file.findings] == [("LP705", "note", "/files")]
    assert call(["validate", str(folder)]) == 0
    edit(folder / "result.json", lambda result: result.update(files={}))
    assert codes(folder) == {"LP705"}


@pytest.mark.parametrize("gone", [(), ("report.md",), ("records",)])
def test_a_run_folder_without_its_result_is_told(run_folder, gone, capsys):
    (run_folder / "report.md").write_text("| case | token/p/s | mem |\n|---|---|---|\n| A100 (1x8) | 12.5 | 30/40 |\n")
    for name in ("result.json", *gone):
        path = run_folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    told = [(file.kind, one.code) for file in validate_path(run_folder) for one in file.findings]
    assert told == [("plan", "LP706")]
    assert call(["validate", str(run_folder)]) == 0
    assert "LP706 warning expected result.json beside the plan of a run, found none" in capsys.readouterr().out


def test_a_run_that_was_cut_off_says_how_far_it_came(run_folder, capsys):
    (run_folder / "result.json").unlink()
    for records in (run_folder / "records").glob("rank-*.jsonl"):
        lines = records.read_text().splitlines(keepends=True)
        steps = [place for place, line in enumerate(lines) if '"kind":"step"' in line]
        records.write_text("".join(lines[: steps[7]]) + lines[steps[7]][:20])
    planned = json.loads((run_folder / "plan.json").read_text())["spec"]["contract"]["steps"]
    assert call(["validate", str(run_folder)]) == 0
    assert f"was cut off, or its result was taken away; 7 of {planned} steps are recorded" in capsys.readouterr().out
    assert call(["report", str(run_folder)]) == 2
    told = f"expected result.json, found none: the run has not ended or was cut off; 7 of {planned} steps are recorded"
    assert told in capsys.readouterr().err


def test_a_plan_by_itself_needs_no_result(run_folder, tmp_path):
    (tmp_path / "plan.json").write_bytes((run_folder / "plan.json").read_bytes())
    assert [(file.kind, file.findings) for file in validate_path(tmp_path / "plan.json")] == [("plan", ())]


def test_a_result_by_itself_is_not_packed(run_folder, tmp_path, ran):
    folder = alone(run_folder)
    for files in (None, {}):
        if files is not None:
            edit(folder / "result.json", lambda result: result.update(files={}))
        assert "LP805" in ran(2, "pack", folder, "-o", tmp_path / "no.zip").err


@pytest.mark.parametrize("put", ["nothing", "a link", "a folder", "another name"])
def test_without_its_plan_a_run_is_not_whole(run_folder, tmp_path, put, ran):
    plan, elsewhere = run_folder / "plan.json", tmp_path / "elsewhere"
    plan.rename(run_folder / "Plan.json" if put == "another name" else elsewhere)
    if put == "a link":
        plan.symlink_to(elsewhere)
    elif put == "a folder":
        plan.mkdir()
    told = [(one.code, one.path) for file in validate_path(run_folder / "result.json") for one in file.findings]
    assert told == [("LP702", "/files/plan.json")]
    assert "LP702" in ran(2, "pack", run_folder, "-o", tmp_path / "no.zip").err


def test_records_without_a_plan_are_still_held_against_their_hashes(run_folder):
    record = run_folder / "records" / "rank-00000.jsonl"
    record.write_text(record.read_text() + "\n")
    (run_folder / "plan.json").unlink()
    edit(run_folder / "result.json", lambda result: result["files"].pop("plan.json"))
    assert codes(run_folder) == {"LP701", "LP702"}
    edit(run_folder / "result.json", lambda result: result["files"].clear())
    assert "LP702" in codes(run_folder)


def test_a_link_for_a_plan_alone_is_told(run_folder):
    folder = alone(run_folder)
    (folder / "plan.json").symlink_to(run_folder / "plan.json")
    assert codes(folder) == {"LP702"}


def test_logs_may_be_left_out(run_folder):
    record = run_folder / "records" / "rank-00001.jsonl"
    failed = '{"kind":"failure","rank":1,"at":1768469407.0,"exception":"ValueError","message":"x","traceback":"x"}\n'
    record.write_text("".join(record.read_text().splitlines(keepends=True)[:2]) + failed)
    log = run_folder / "logs" / "rank-00001.log"
    log.parent.mkdir()
    log.write_text("last words\n")
    result = build_result(run_folder)
    assert result.status == "failed"
    log.unlink()
    assert run_folder_findings(result, run_folder) == []


@pytest.mark.parametrize("owner", ["plan", "worker"])
def test_a_complete_run_has_a_plan_without_problems(run_folder, owner):
    problem = {"code": "zero.made_up", "where": "tuning", "message": "expected a plan that can be run"}

    def forge(plan):
        (plan if owner == "plan" else plan["worker"])["problems"] = [problem]

    edit(run_folder / "plan.json", forge)
    json_files.save(run_folder / "result.json", build_result(run_folder))
    assert codes(run_folder) == {"LP651"}


def test_runs_of_a_matrix_that_were_cut_off_are_passed_over(run_folder, tmp_path):
    folder = tmp_path / "sweep"
    (folder / "runs").mkdir(parents=True)
    (folder / "matrix.json").write_text("{}")
    shutil.copytree(run_folder, folder / "runs" / "counts")
    shutil.copytree(run_folder, folder / "unfinished" / "aborted")
    shutil.copytree(run_folder, folder / "unfinished" / "killed")
    (folder / "unfinished" / "killed" / "result.json").unlink()
    assert {file.path.relative_to(folder).parts[0] for file in validate_path(folder)} == {"runs"}
    assert validate_path(folder / "unfinished" / "aborted")  # unless they are named

"""Challenges: issued by one person, answered by another, and checked when the result is handed in."""

import datetime
import json
import re
import shutil
from dataclasses import replace

import pytest
from llmperf import challenge_seed
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import Ending
from llmperf.types.plan import Plan
from llmperf_verify.challenges import read_challenge

issued = []
"""When the test's challenge was issued."""


def at(seconds):
    return (issued[0] + datetime.timedelta(seconds=seconds)).isoformat(timespec="seconds")


@pytest.fixture
def challenge(tmp_path, monkeypatch, capsys):
    """The file of a challenge for the default case, in the issuer's folder."""
    monkeypatch.chdir(tmp_path)
    assert call(["challenge", "issue", "--within", "2h", "--case", "default", "-o", "issued"]) == 0
    (path,) = (tmp_path / "issued").iterdir()
    issued[:] = [datetime.datetime.fromisoformat(json.loads(path.read_text())["issued"])]
    assert f"{path.relative_to(tmp_path)}: keep it" in capsys.readouterr().out
    return path


def answer(folder, nonce, **spec):
    """Make the run of a folder one that answers a challenge, made a moment ago."""
    plan = json_files.load(folder / filenames.PLAN, Plan)
    contract = replace(plan.spec.contract, seed=spec.pop("seed", challenge_seed(nonce)))
    spec = replace(plan.spec, contract=contract, challenge=nonce, **spec)
    json_files.save(folder / filenames.PLAN, replace(plan, spec=spec, created=at(BEGIN)))
    json_files.save(folder / filenames.ENDING, Ending(cause="ended", at=at(60), agents=(0,)))
    json_files.save(folder / filenames.RESULT, build_result(folder))


BEGIN = 10
"""Seconds after the challenge when runs begin here."""


@pytest.fixture
def answered(run_folder, challenge):
    """A run, of a variant, that answers a challenge for any case."""
    json_files.save(challenge, replace(read_challenge(challenge), case=None))
    answer(run_folder, read_challenge(challenge).nonce)
    return run_folder


def check(capsys, folder, *options, code=0):
    assert call(["challenge", "check", str(folder), "--issued", "issued", *options]) == code
    return capsys.readouterr().out


def test_a_challenge_is_a_document_with_a_nonce_and_a_deadline(challenge, capsys):
    content = json.loads(challenge.read_text())
    assert re.fullmatch("[0-9a-f]{64}", content["nonce"])
    assert content["case"] == "default"
    begins, deadline = (datetime.datetime.fromisoformat(content[name]) for name in ("issued", "deadline"))
    assert deadline - begins == datetime.timedelta(hours=2)
    assert call(["validate", str(challenge)]) == 0
    challenge.write_text(challenge.read_text().replace('"nonce"', '"number"'))
    assert call(["validate", str(challenge)]) == 1


def test_a_challenge_is_not_replaced(challenge, ran):
    assert "a challenge is not replaced" in ran(2, "challenge", "issue", "--within", "1h", "-o", challenge).err


@pytest.mark.parametrize("within", ["2", "0h", "h", "-1h", "400d", "1.5h"])
def test_a_time_that_is_none_is_refused(within, ran):
    assert "such as 90m, 2h or 7d" in ran(2, "challenge", "issue", f"--within={within}").err


def test_an_unknown_case_is_refused(tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    assert "did you mean 'default'?" in ran(2, "challenge", "issue", "--within", "1h", "--case", "defualt").err
    assert not list(tmp_path.iterdir())


def test_seeds_depend_on_the_nonce_and_fit_every_framework():
    seeds = {challenge_seed(f"{number:064x}") for number in range(1000)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert challenge_seed("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08") == 339069236


def test_a_run_takes_its_seed_from_the_challenge_and_is_no_variant(challenge, ran):
    spec = json.loads(ran(0, "run", "default", "--challenge", challenge, "--dry-run", "--json").out)["plan"]["spec"]
    nonce = read_challenge(challenge).nonce
    assert spec["challenge"] == nonce
    assert spec["contract"]["seed"] == challenge_seed(nonce)
    assert not [change for change in spec["changes"] if change["path"].startswith("contract.")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["default", "--set", "seed=3"], "--set contract.seed: the challenge determines the seed"),
        (["default", "--set", "seq_len=64"], "--set contract.seq_len: the challenge is for case 'default' as it is"),
        (["llama2_7b_pretrain_zero"], "expected case 'default', found 'llama2_7b_pretrain_zero'"),
        (["default", "--repeat", "2"], "--challenge is for one run"),
    ],
)
def test_a_run_of_something_else_is_refused(options, message, challenge, ran):
    assert message in ran(2, "run", *options, "--challenge", challenge, "--dry-run").err


def test_the_answer_passes_and_is_noted(answered, challenge, ran, capsys):
    assert ": passed: challenge " in check(capsys, answered)
    note = json.loads(challenge.with_name(challenge.name.replace(".json", ".used.json")).read_text())
    assert note["nonce"] == read_challenge(challenge).nonce
    assert note["run_id"] == json.loads((answered / "result.json").read_text())["run_id"]
    assert "LP672 note challenge " in ran(0, "validate", answered, "--challenges", "issued").out


def test_an_answer_passes_again_after_the_deadline(answered, challenge, capsys):
    check(capsys, answered)
    assert ".used.json; --received is ignored" in check(capsys, answered, "--received", at(9000))


def notes(challenge):
    return [path.name for path in challenge.parent.iterdir() if path != challenge]


def test_an_edited_result_does_not_use_the_challenge_up(answered, challenge, tmp_path, capsys):
    edited = shutil.copytree(answered, tmp_path / "edited")
    result = json.loads((edited / "result.json").read_text())
    result["metrics"]["final_loss"] = 1.0
    (edited / "result.json").write_text(json.dumps(result))
    printed = check(capsys, edited, code=1)
    assert "failed: llmperf validate finds " in printed
    assert "is not used up" in printed
    assert call(["validate", str(edited), "--challenges", "issued"]) == 1
    assert not notes(challenge)
    assert ": passed: " in check(capsys, answered)


def test_a_result_alone_does_not_use_the_challenge_up(answered, challenge, tmp_path, capsys):
    alone = tmp_path / "alone" / "result.json"
    alone.parent.mkdir()
    shutil.copy(answered / "result.json", alone)
    assert "impossible: no plan and no records beside it" in check(capsys, alone, code=1)
    assert call(["validate", str(alone), "--challenges", "issued"]) == 1
    assert not notes(challenge)


def test_a_result_that_failed_a_spot_check_does_not_use_the_challenge_up(answered, challenge, capsys):
    assert call(["validate", str(answered), "--challenges", "issued", "--spot", "1"]) == 1  # it recorded no losses
    assert "LP672 error llmperf validate finds 1 error, the first LP676" in capsys.readouterr().out
    assert not notes(challenge)


def test_a_folder_without_a_result_is_refused(challenge, capsys):
    assert call(["challenge", "check", "issued", "--issued", "issued"]) == 2
    assert "expected a run with its result.json, found none" in capsys.readouterr().err


def test_folders_and_archives_are_searched_for_results(answered, tmp_path, capsys):
    assert f"{answered}: passed: " in check(capsys, answered.parent)
    archive = shutil.make_archive(str(tmp_path / "submission"), "zip", answered.parent, answered.name)
    assert f"{archive}/{answered.name}: passed: " in check(capsys, archive)


def test_an_archive_is_no_challenge(tmp_path, monkeypatch, capsys):
    archive = tmp_path / "submission.zip"
    archive.write_bytes(b"PK\x03\x04")
    assert call(["run", "default", "--challenge", str(archive), "--dry-run"]) == 2
    assert (
        "expected a challenge file, as llmperf challenge issue writes it, found an archive" in capsys.readouterr().err
    )


def test_the_challenge_of_another_result_is_used(answered, tmp_path, capsys):
    check(capsys, answered)
    other = shutil.copytree(answered, tmp_path / "other")
    (other / "result.json").write_text((other / "result.json").read_text().replace('"measured"', '"measured" '))
    printed = check(capsys, other, code=1)
    assert "this run has answered challenge" in printed
    assert "with another result.json (SHA-256 " in printed
    assert "to take that answer back, delete challenge-" in printed


def test_a_late_answer_fails_and_is_not_noted(answered, challenge, capsys):
    assert "after the deadline" in check(capsys, answered, "--received", at(9000), code=1)
    assert list(challenge.parent.iterdir()) == [challenge]


def test_times_that_cannot_be_fail(answered, capsys):
    assert "the run ended" in check(capsys, answered, "--received", at(-3000), code=1)
    assert call(["challenge", "check", str(answered), "--issued", "issued", "--received", "yesterday"]) == 2
    assert "--received: expected a time such as" in capsys.readouterr().err


def test_a_run_from_before_the_challenge_fails(answered, capsys):
    plan = json_files.load(answered / filenames.PLAN, Plan)
    json_files.save(answered / filenames.PLAN, replace(plan, created=at(-3600)))
    json_files.save(answered / filenames.RESULT, build_result(answered))
    assert "before challenge" in check(capsys, answered, code=1)


def test_a_run_without_a_challenge_fails(run_folder, challenge, ran, capsys):
    assert "expected llmperf run --challenge FILE" in check(capsys, run_folder, code=1)
    assert "LP672 error its seed is not of a challenge" in ran(1, "validate", run_folder, "--challenges", "issued").out


def test_another_seed_fails(run_folder, challenge, ran, capsys):
    answer(run_folder, read_challenge(challenge).nonce, seed=7)
    assert "found 7" in check(capsys, run_folder, code=1)
    assert "/contract/seed: LP665 error expected" in ran(1, "validate", run_folder).out


@pytest.mark.parametrize(
    ("nonce", "spec", "told"),
    [
        ("ab" * 32, {}, "its challenge abababab is not among those of issued"),
        (None, {"case": "llama2_7b_pretrain_zero"}, "expected case default"),
        (None, {}, "expected case default as it is"),
    ],
)
def test_a_run_of_something_else_is_no_answer(run_folder, challenge, capsys, nonce, spec, told):
    answer(run_folder, nonce or read_challenge(challenge).nonce, **spec)
    assert told in check(capsys, run_folder, code=1)


def test_a_file_of_another_kind_is_no_challenge(run_folder, challenge, capsys):
    challenge.write_text('{"schema": "llmperf/challenge/1", "nonce": "12", "issued": "", "deadline": ""}')
    answer(run_folder, "ab" * 32)
    assert call(["challenge", "check", str(run_folder), "--issued", "issued"]) == 2
    assert "nonce: expected 64 hexadecimal digits, found '12'" in capsys.readouterr().err

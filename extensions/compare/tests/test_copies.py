"""Copies and forgeries among results: the run that its records prove is shown, and nobody can remove it."""

import hashlib
import json
import shutil
import zipfile

import llmperf_compare
import pytest
from llmperf.cli.main import call

FASTER = {"tokens_per_second_per_device": 9e5}


def forged(run, target, metrics=None, **changed):
    """The result of a run with other values, without its records."""
    document = json.loads((run / "result.json").read_text()) | changed
    document["metrics"] |= metrics or {}
    target.mkdir(parents=True)
    (target / "result.json").write_text(json.dumps(document))
    return document


@pytest.fixture
def genuine(run_folder, tmp_path):
    """The figure of a valid run in `runs/z`; forgeries with names that come before it are written beside it."""
    (tmp_path / "runs").mkdir()
    run_folder.rename(tmp_path / "runs" / "z")
    document = json.loads((tmp_path / "runs" / "z" / "result.json").read_text())
    return document["metrics"]["tokens_per_second_per_device"]


def summarised(folder, capsys):
    capsys.readouterr()
    assert call(["summary", str(folder), "--json"]) == 0
    out, err = capsys.readouterr()
    return [kind["spread"] for kind in json.loads(out)], err


def test_a_forged_copy_that_comes_first_does_not_replace_the_run(genuine, tmp_path, capsys):
    runs = tmp_path / "runs"
    forged(runs / "z", runs / "a", FASTER)
    (spread,), err = summarised(runs, capsys)
    assert (spread["runs"], spread["median"]) == (1, genuine)
    assert f"{runs / 'a' / 'result.json'} is the same run as {runs / 'z' / 'result.json'}, but says something" in err
    with pytest.warns(UserWarning, match="counted once"):
        (loaded,) = llmperf_compare.load_results(runs)
    assert loaded.valid
    assert loaded.values["tokens_per_second_per_device"] == genuine


def repacked(archive, target, old, new):
    """An archive with other texts in its results and a manifest that agrees, without records."""
    with zipfile.ZipFile(archive) as packed, zipfile.ZipFile(target, "w") as changed:
        members = {name: packed.read(name).replace(old, new) for name in packed.namelist() if "/records/" not in name}
        manifest = json.loads(members.pop("manifest.json"))
        manifest["files"] = {
            name: hashlib.sha256(members[name]).hexdigest() for name in manifest["files"] if name in members
        }
        for name, content in members.items():
            changed.writestr(name, content)
        changed.writestr("manifest.json", json.dumps(manifest))


def test_a_forged_archive_that_comes_first_does_not_replace_the_run(genuine, tmp_path):
    packed = tmp_path / "packed"
    packed.mkdir()
    assert call(["pack", str(tmp_path / "runs" / "z"), "-o", str(packed / "z.zip")]) == 0
    repacked(packed / "z.zip", packed / "a.zip", repr(genuine).encode(), b"99999.0")
    with pytest.warns(UserWarning, match=r"a\.zip/.* is the same run as .*z\.zip/.*but says something else"):
        (loaded,) = llmperf_compare.load_results(packed)
    assert loaded.values["tokens_per_second_per_device"] == genuine
    assert len(loaded.steps()) > 1


def test_different_runs_with_one_identity_are_both_shown(genuine, tmp_path, capsys):
    runs = tmp_path / "runs"
    forged(runs / "z", runs / "a", FASTER, files={"plan.json": "a" * 64})
    (spread,), err = summarised(runs, capsys)
    assert (spread["runs"], spread["minimum"]) == (2, genuine)
    assert f"{runs / 'z' / 'result.json'} and {runs / 'a' / 'result.json'} have one run_id, but are different" in err
    assert err.count("\n") == 1


def test_a_copy_cannot_stand_for_two_runs(genuine, tmp_path, capsys):
    """A forgery with the records of one run and the figures of another replaces neither."""
    runs = tmp_path / "runs"
    other = forged(runs / "z", runs / "y", FASTER | {"window_seconds": 7.5}, run_id="other", files={})
    forged(runs / "z", runs / "a", other["metrics"], run_id="third")
    (spread,), err = summarised(runs, capsys)
    assert spread["runs"] == 2
    assert err.count("counted once") == 1


def test_copies_with_other_digests_are_no_repeats(genuine, tmp_path, capsys):
    runs = tmp_path / "runs"
    for number in range(3):
        forged(runs / "z", runs / f"a{number}", run_id=f"x{number}", files={"records/r.jsonl": f"{number:064x}"})
    (spread,), err = summarised(runs, capsys)
    assert spread["runs"] == 1
    assert err.count("counted once") == 1
    assert "a0/result.json and 2 more are the same run as" in err


def test_names_of_files_cannot_write_to_the_terminal(genuine, tmp_path, ran):
    name = "a\n::error::x\x1b[31m\u202e.zip"
    with zipfile.ZipFile(tmp_path / "runs" / name, "w") as archive:
        archive.writestr("x", "x")
    for words in (["site", str(tmp_path / "runs"), "-o", str(tmp_path / "site")], ["summary", str(tmp_path / "runs")]):
        out, err = ran(0, *words)
        assert not [line for line in (out + err).splitlines() if line.startswith("::") or not line.isprintable()]
    shutil.rmtree(tmp_path / "site")


@pytest.mark.parametrize("form", ["terminal", "junit", "github", "sarif"])
def test_a_file_that_cannot_be_read_is_left_out_of_a_summary(genuine, tmp_path, ran, form):
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "result.json").write_text('{"schema": "llmperf/result/1"}')
    out, err = ran(0, "summary", tmp_path / "runs", "--format", form)
    assert "left out: " in err
    assert "bad/result.json" in err
    assert form == "terminal" or ("unreadable" in out and "bad/result.json" in out)
    forged(tmp_path / "runs" / "z", tmp_path / "before", {"window_seconds": 7.5}, run_id="before", files={})
    words = ["summary", str(tmp_path / "runs"), "--baseline", str(tmp_path / "before"), "--fail-below", "0.5"]
    assert call(words) == 1


@pytest.mark.parametrize("digest", ["a" * 63, "A" * 64, "a" * 64 + " "])
def test_digests_are_64_hexadecimal_digits(genuine, tmp_path, ran, digest):
    forged(tmp_path / "runs" / "z", tmp_path / "x", files={"records/rank-00000.jsonl": digest})
    assert "expected a text that matches ^[0-9a-f]{64}$" in ran(1, "validate", tmp_path / "x").out


def test_a_report_shows_a_run_once_and_reads_archives(genuine, tmp_path, ran, capsys):
    runs, archive = tmp_path / "runs", tmp_path / "submission.zip"
    assert call(["pack", str(runs / "z"), "-o", str(archive)]) == 0
    forged(runs / "z", runs / "a", FASTER)
    capsys.readouterr()
    out, err = ran(0, "report", runs, archive, "--format", "json")
    rows = [row for document in json.loads(out) for row in document["rows"]]
    assert [row["tokens_per_second_per_device"] for row in rows] == [genuine]
    assert err.count("the same run as") == 2
    assert call(["report", str(archive), "--format", "json"]) == 0
    assert genuine == json.loads(capsys.readouterr().out)[0]["rows"][0]["tokens_per_second_per_device"]
    for words in (["summary"], ["compare", str(runs / "z")], ["align", str(runs / "z")]):
        assert "found an archive: unpack it" in ran(2, *words, archive).err

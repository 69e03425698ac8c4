"""`llmperf pack`, and archives that somebody else made."""

import hashlib
import io
import json
import re
import shutil
import tarfile
import zipfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.create import load_plan
from llmperf.types import FailureRecord, Node
from llmperf.validation.check import validate_path
from llmperf_verify import archives
from llmperf_verify.archives import unpacked
from llmperf_verify.pack_command import replacements, without_host_names


@pytest.fixture
def submission(run_folder, tmp_path, capsys):
    """A packed run."""
    output = tmp_path / "submission.zip"
    assert call(["pack", str(run_folder), "-o", str(output)]) == 0
    assert "1 run, " in capsys.readouterr().out
    return output


def repacked(source, target, change):
    """A copy of an archive; `change` takes its members (name to bytes) and alters them."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def codes(path):
    return [finding.code for file in validate_path(path) for finding in file.findings]


def test_a_packed_run_is_valid_and_complete(submission, run_folder, capsys):
    assert codes(submission) == []
    assert call(["validate", str(submission)]) == 0
    with zipfile.ZipFile(submission) as archive:
        names = archive.namelist()
    assert names[0] == "manifest.json"
    inside = {name.partition("/")[2] for name in names if "/" in name}
    assert {"plan.json", "result.json", "records/rank-00000.jsonl"} <= inside
    assert not any(name.startswith("logs/") for name in inside)


def test_a_folder_of_runs_and_a_result_are_packed_as_their_run_folders(submission, run_folder, tmp_path):
    folder = tmp_path / "all" / "of them"
    shutil.copytree(run_folder, folder / run_folder.name)
    for number, path in enumerate((tmp_path / "all", run_folder / "result.json")):
        output = tmp_path / f"again-{number}.zip"
        assert call(["pack", str(path), "-o", str(output)]) == 0
        with zipfile.ZipFile(output) as again, zipfile.ZipFile(submission) as first:
            assert again.namelist() == first.namelist()


def test_two_packs_of_the_same_runs_have_the_same_members(submission, run_folder, tmp_path):
    assert call(["pack", str(run_folder), "-o", str(tmp_path / "again.zip")]) == 0
    with zipfile.ZipFile(submission) as one, zipfile.ZipFile(tmp_path / "again.zip") as other:
        first, second = ({name: a.read(name) for name in a.namelist() if name != "manifest.json"} for a in (one, other))
    assert first == second


def edited(members):
    (name,) = [name for name in members if name.endswith("result.json")]
    result = json.loads(members[name])
    result["metrics"]["tokens_per_second_per_device"] *= 2
    members[name] = json.dumps(result).encode()


def test_an_edited_figure_is_caught_by_the_manifest_and_by_the_records(submission, tmp_path, ran):
    told = codes(repacked(submission, tmp_path / "edited.zip", edited))
    assert "LP803" in told
    assert "LP703" in told
    out = ran(1, "validate", tmp_path / "edited.zip").out
    assert "edited.zip/manifest.json:/files/" in out
    assert "/tmp/llmperf-" not in out


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda members: members.pop("manifest.json"), "LP801"),
        (lambda members: members.pop("README.md"), "LP802"),
        (lambda members: members.update({"README.md": b"other"}), "LP803"),
        (lambda members: members.update({"notes.txt": b"hello"}), "LP804"),
        (lambda members: members.update({"manifest.json": b"{"}), "LP001"),
        (lambda members: members.update({"manifest.json": b"{}"}), "LP011"),
        (lambda members: members.update({"manifest.json": b'{"files": {}, ' + members["manifest.json"][1:]}), "LP002"),
    ],
)
def test_each_departure_from_the_manifest_is_told(submission, tmp_path, change, code):
    assert code in codes(repacked(submission, tmp_path / "changed.zip", change))


def resealed(change):
    """An edit of the members that is followed by a manifest made anew."""

    def edit(members):
        change(members)
        manifest = json.loads(members.pop("manifest.json"))
        manifest["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
        members["manifest.json"] = json.dumps(manifest).encode()

    return edit


def named(members, ending):
    return next(name for name in members if name.endswith(ending))


def without_sources(members):
    for name in [name for name in members if "/" in name and not name.endswith("result.json")]:
        del members[name]


def doubled(document):
    assert b"1,600.0" not in document
    return document.replace(b"800.0", b"1,600.0")


def unlisted(members):
    name = named(members, "result.json")
    members[name] = json.dumps(json.loads(members[name]) | {"files": {}}).encode()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda members: members.pop(named(members, "plan.json")), "LP702"),
        (lambda members: members.update({"run/Plan.json": members.pop("run/plan.json")}), "LP702"),
        (lambda members: members.update({"run/plan.json/x": members.pop("run/plan.json")}), "LP702"),
        (without_sources, "LP805"),
        (unlisted, "LP805"),
        (lambda members: members.update({"more.zip": b"PK"}), "LP806"),
        (lambda members: members.update({"run/records/more.zip": b"PK"}), "LP806"),
        (lambda members: members.update({"run/files/result.json": members["run/result.json"]}), "LP806"),
        (lambda members: members.update({".hidden/result.json": members["run/result.json"]}), "LP806"),
        (lambda members: members.update({"other/plan.json": members["run/plan.json"]}), "LP807"),
        (lambda members: members.update({"README.md": doubled(members["README.md"])}), "LP808"),
        (lambda members: members.update({"README.md": members["README.md"] + b"more\n"}), "LP808"),
        (lambda members: members.update({"README.md": b""}), "LP808"),
        (lambda members: members.update({"run/report.md": doubled(members["README.md"])}), "LP808"),
        (lambda members: members.pop("README.md"), "LP802"),
    ],
)
def test_each_departure_under_a_manifest_made_anew_is_told(submission, tmp_path, change, code):
    changed = repacked(submission, tmp_path / "changed.zip", resealed(change))
    assert code in [one.code for file in validate_path(changed) for one in file.findings if one.severity == "error"]
    assert call(["validate", str(changed)]) == 1


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"runs": ["nope"]}, "LP807"),
        ({"runs": []}, "LP807"),
        ({"runs": ["run", "run"]}, "LP807"),
        ({"created": "yesterday"}, "LP809"),
        ({"created": "2026-01-02T03:04:05"}, "LP809"),
    ],
)
def test_what_the_manifest_itself_says_is_checked(submission, tmp_path, values, code):
    def change(members):
        members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | values).encode()

    changed = repacked(submission, tmp_path / "changed.zip", change)
    assert set(codes(changed)) == {code}
    assert call(["validate", str(changed)]) == 1


def test_a_changed_readme_is_told_at_its_line(submission, tmp_path, ran):
    change = resealed(lambda members: members.update({"README.md": doubled(members["README.md"])}))
    changed = repacked(submission, tmp_path / "changed.zip", change)
    (line,) = ran(1, "validate", changed).out.splitlines()
    assert re.match(re.escape(f"{changed}/README.md:") + r"\d+: LP808 error expected .*800\.0.* found .*1,600\.0", line)


@pytest.mark.parametrize(("locale", "heading"), [("C", "Configuration"), ("zh_CN.UTF-8", "配置")])
def test_a_submission_of_many_runs_is_valid_in_the_language_of_the_locale(
    run_folder, tmp_path, monkeypatch, locale, heading
):
    monkeypatch.setenv("LC_ALL", locale)
    other = tmp_path / "another"
    shutil.copytree(run_folder, other)
    output = tmp_path / "two.zip"
    assert call(["pack", str(run_folder), str(other), "-o", str(output)]) == 0
    assert set(codes(output)) <= {"LP631"}
    with zipfile.ZipFile(output) as archive:
        assert heading in archive.read("README.md").decode()


def test_configuration_files_of_the_plan_and_logs_are_packed_and_nothing_that_pack_does_not_know(run_folder, tmp_path):
    plan = load_plan(run_folder)
    json_files.save(run_folder / "plan.json", replace(plan, worker=replace(plan.worker, files={"engine.json": "{}"})))
    others = ("notes.txt", "more.csv", "logs/core", "files/extra.json")
    for name in (*others, "logs/rank-00000.log", "files/engine.json"):
        (run_folder / name).parent.mkdir(exist_ok=True)
        (run_folder / name).write_text("{}")
    json_files.save(run_folder / "result.json", build_result(run_folder))
    assert call(["pack", str(run_folder), "-o", str(tmp_path / "whole.zip"), "--logs"]) == 0
    with zipfile.ZipFile(tmp_path / "whole.zip") as archive:
        inside = set(archive.namelist())
    assert {"run/logs/rank-00000.log", "run/files/engine.json"} <= inside
    assert not {f"run/{name}" for name in others} & inside
    assert codes(tmp_path / "whole.zip") == []


def test_a_hidden_folder_is_not_packed(run_folder, tmp_path, ran):
    hidden = run_folder.rename(tmp_path / ".run")
    assert "'.run'" in ran(2, "pack", hidden, "-o", tmp_path / "no.zip").err


def test_a_submission_unpacked_by_hand_is_read_as_a_folder(submission, tmp_path):
    shutil.unpack_archive(submission, tmp_path / "by_hand")
    assert codes(tmp_path / "by_hand") == []


def test_a_run_in_two_submissions_is_told_by_its_place_in_the_first(submission, tmp_path, ran, capsys):
    second = tmp_path / "second.zip"
    shutil.copy(submission, second)
    capsys.readouterr()
    (line,) = [one for one in ran(0, "validate", submission, second).out.splitlines() if "LP631" in one]
    assert line.startswith(f"{second}/")
    assert f"found those of {submission}/" in line


def test_a_repeated_run_in_other_files_is_told(run_folder, tmp_path):
    other = tmp_path / "run2"
    shutil.copytree(run_folder, other)
    for record in (other / "records").iterdir():
        record.write_text(record.read_text().replace('{"', '{ "', 1))
    json_files.save(other / "result.json", build_result(other))
    assert codes(tmp_path) == ["LP631"]


def test_a_run_that_is_no_measurement_is_packed_and_told(run_folder, tmp_path, capsys):
    plan = json.loads((run_folder / "plan.json").read_text())
    plan["probe"]["simulated"] = True
    (run_folder / "plan.json").write_text(json.dumps(plan))
    json_files.save(run_folder / "result.json", build_result(run_folder))
    assert call(["pack", str(run_folder), "-o", str(tmp_path / "s.zip")]) == 0
    said = "llmperf: warning: packed, but no measurement: run ran on a simulated device\n"
    assert capsys.readouterr().err == said


def test_what_is_not_valid_is_not_packed(run_folder, tmp_path, ran):
    result = json.loads((run_folder / "result.json").read_text())
    result["metrics"]["measured_tokens"] += 1
    (run_folder / "result.json").write_text(json.dumps(result))
    assert "not valid, so not packed" in ran(2, "pack", run_folder, "-o", tmp_path / "no.zip").err
    assert not (tmp_path / "no.zip").exists()


def test_bad_requests_are_one_line(submission, run_folder, tmp_path, ran):
    for words, line in (
        ([str(run_folder), "-o", str(submission)], "is there already"),
        ([str(run_folder), "-o", str(tmp_path / "x.rar")], "expected a name that ends with .zip"),
        ([str(run_folder), str(run_folder), "-o", str(tmp_path / "x.zip")], "give each once"),
        ([str(run_folder / "records"), "-o", str(tmp_path / "x.zip")], "expected a run folder with result.json"),
    ):
        assert line in ran(2, "pack", *words).err


def zip_of(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("name", ["../up.json", "/etc/passwd", "a/../../b", "C:\\x", "a\\b", "a\nb", "x" * 300])
def test_names_that_leave_the_folder_are_refused(tmp_path, name):
    with (
        pytest.raises(UserError, match="expected names inside the archive"),
        unpacked(zip_of(tmp_path / "bad.zip", (name, b"x"))),
    ):
        pass


def test_links_and_devices_are_refused(tmp_path):
    entry = zipfile.ZipInfo("link")
    entry.external_attr = 0o120777 << 16
    with pytest.raises(UserError, match="link or a device"), unpacked(zip_of(tmp_path / "l.zip", (entry, b"/etc"))):
        pass
    with tarfile.open(tmp_path / "l.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(UserError, match="link or a device"), unpacked(tmp_path / "l.tar.gz"):
        pass


def test_what_is_too_large_or_too_many_is_refused(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2**22))
    monkeypatch.setattr(archives, "MAX_DOCUMENT_BYTES", 2**20)
    with pytest.raises(UserError, match="larger than what is unpacked"), unpacked(tmp_path / "bomb.zip"):
        pass
    monkeypatch.setattr(archives, "MAX_MEMBERS", 2)
    many = zip_of(tmp_path / "many.zip", *((f"f{n}", b"") for n in range(3)))
    with pytest.raises(UserError, match="more than 2 members"), unpacked(many):
        pass


def test_a_tar_archive_is_read_too(submission, tmp_path):
    with zipfile.ZipFile(submission) as source, tarfile.open(tmp_path / "s.tar.gz", "w:gz") as target:
        for name in source.namelist():
            member = tarfile.TarInfo(name)
            member.size = len(source.read(name))
            target.addfile(member, io.BytesIO(source.read(name)))
    assert codes(tmp_path / "s.tar.gz") == []


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(place=st.integers(0, 10**6), value=st.integers(0, 255), suffix=st.sampled_from([".zip", ".tar.gz"]))
def test_damaged_archives_are_said_in_a_line(submission, tmp_path, place, value, suffix):
    data = bytearray(submission.read_bytes())
    data[place % len(data)] = value
    damaged = tmp_path / f"damaged{suffix}"
    damaged.write_bytes(bytes(data))
    for file in validate_path(damaged):
        assert all(finding.message for finding in file.findings)


def planned(stub_plan, *nodes):
    return replace(stub_plan(steps=6), nodes=tuple(Node(host=host, address=address) for host, address in nodes))


def test_hosts_users_and_addresses_get_numbers_and_this_machine_keeps_its_names(stub_plan):
    plan = planned(stub_plan, ("gpu-1", "10.0.0.1"), ("gpu-2", "gpu-2"), ("localhost", "127.0.0.1"))
    assert replacements(plan) == {"gpu-1": "node-000", "gpu-2": "node-001", "10.0.0.1": "address-000"}
    plan = planned(stub_plan, ("amy@gpu-1:2222", "gpu-1"), ("gpu-2", "10.0.0.2"), ("::1", "fe80::1"))
    known = {"amy@gpu-1:2222": "node-000", "gpu-1": "node-000", "gpu-2": "node-001"}
    assert replacements(plan) == {**known, "10.0.0.2": "address-001", "fe80::1": "address-002"}


def failure_of(stub_plan, message):
    """The message of a failure record after names were hidden."""
    from llmperf_verify.pack_command import _hidden, _hiding

    plan = planned(stub_plan, ("gpu-1", "10.0.0.1"), ("gpu-10", "10.0.0.10"))
    record = FailureRecord(rank=0, at=1.0, exception="RuntimeError", message=message, traceback="")
    data = json_files.encode(record) + b"\n" + b'{"kind":"failure","cut'
    name = f"{filenames.RECORDS}/rank-00000.jsonl"
    first, rest = _hidden(name, data, _hiding(replacements(plan))).split(b"\n")
    assert rest == b'{"kind":"failure","cut'
    return json.loads(first)["message"]


def test_only_whole_names_are_replaced(stub_plan):
    text = "gpu-1: cannot reach 10.0.0.10:29500 and gpu-10, gpu-1.lab and 110.0.0.1 are others"
    expected = "node-000: cannot reach address-001:29500 and node-001, gpu-1.lab and 110.0.0.1 are others"
    assert failure_of(stub_plan, text) == expected


def test_files_of_a_run_on_this_machine_are_kept_byte_by_byte(stub_plan):
    plan = planned(stub_plan, ("localhost", "127.0.0.1"))
    files = {filenames.PLAN: json_files.encode(plan), filenames.RESULT: b"as it is"}
    assert without_host_names(files) == files

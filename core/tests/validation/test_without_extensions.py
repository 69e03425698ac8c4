"""Without the extension that reads them, documents are named together with the package that does; the rest works."""

import json

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.plugins.mending import install_own
from llmperf.plugins.own_packages import project_packages
from llmperf.results.run_result import build_result
from llmperf.validation import plugin_data
from llmperf.validation.catalogue import forget_catalogues, open_catalogue

INSTALL = f"install it with: {install_own('llmperf-published')}"
PACKAGE = f"llmperf-published reads published documents; {INSTALL}"


@pytest.fixture(autouse=True)
def core_alone(monkeypatch):
    """No extension is installed."""
    whole = plugin_data.discover
    monkeypatch.setattr(plugin_data, "discover", lambda: [found for found in whole() if found.role != "extension"])
    forget_catalogues()
    yield
    monkeypatch.undo()
    forget_catalogues()


@pytest.fixture
def imported(tmp_path, saved):
    return saved(tmp_path / "imported" / "published.json", {"schema": "llmperf/published/1", "rows": []})


@pytest.fixture
def result(tmp_path, example, saved):
    return saved(tmp_path / "row.json", example)


def test_a_file_of_an_unknown_kind_names_the_package_that_reads_it(imported, ran):
    readme = imported.with_name("README.md")
    readme.write_text("| configuration | tokens/p/s |\n| --- | --- |\n| A100 1x1 | 100 |\n")
    for path in (imported, readme):
        assert f"{path}: LP001 error {PACKAGE}" in ran(2, "validate", path).out
        assert f"{path}: {PACKAGE}" in ran(2, "report", path).err


def test_it_is_no_silence_in_a_folder_and_results_beside_it_are_checked(imported, result, tmp_path, ran):
    first, second = ran(2, "validate", tmp_path).out.splitlines()
    assert first.startswith(f"{result}:/files: LP705 note")
    assert second.startswith(f"{imported}: LP001 error {PACKAGE}")


def test_it_is_said_that_claims_are_not_judged(result, ran):
    expected = f"llmperf-verify judges claims and is absent; install it with: {install_own('llmperf-verify')}"
    assert expected in ran(0, "validate", result).err


def test_results_are_reported_and_a_published_baseline_names_the_package(result, ran):
    assert ran(0, "report", result, "--format", "csv").out.count("\n") == 2
    assert PACKAGE in ran(2, "report", "published").err


@pytest.mark.parametrize("option", ["--explain", "--select", "--ignore"])
def test_rules_of_an_absent_extension_name_its_package(result, ran, option):
    for code in ("LP411", "lp311"):
        assert f"{code} belongs to llmperf-published; {INSTALL}" in ran(2, "validate", option, code, result).err


def test_the_rules_of_an_absent_extension_are_listed_completely(monkeypatch):
    monkeypatch.undo()
    forget_catalogues()
    rules = open_catalogue().all_rules()
    for name, codes in project_packages()["rules"].items():
        assert [owned.rule.code for owned in rules if owned.owner.distribution == f"llmperf-{name}"] == codes


def test_what_llmperf_verify_records_is_kept_and_its_documents_name_it(run_folder, ran, saved):
    for rank, path in enumerate(sorted((run_folder / "records").glob("rank-*"))):
        line = {"kind": "sequences", "rank": rank, "losses": [8.0, 9.0]}
        path.write_text(path.read_text() + json.dumps(line) + "\n")
    json_files.save(run_folder / "result.json", build_result(run_folder))
    assert "error" not in ran(0, "validate", run_folder).out
    verification = saved(run_folder / "verification.json", {"schema": "llmperf/verification/1"})
    assert "llmperf-verify reads verification documents; install it with: " in ran(2, "validate", verification).out


def test_the_package_of_a_section_is_named_as_the_run_recorded_it(example, result, capsys):
    """Of packages that are not the project's, too."""
    acme = {**example["plugins"][0], "name": "acme", "role": "extension", "distribution": "llmperf-acme"}
    result.write_text(json.dumps({**example, "sections": {"acme": {}}, "plugins": [*example["plugins"], acme]}))
    call(["validate", str(result)])
    assert '/sections/acme: LP905 note expected "llmperf-acme" to be installed' in capsys.readouterr().out


def test_an_archive_names_the_package_that_unpacks_it_also_in_a_folder(result, tmp_path, ran):
    archive = tmp_path / "submission.zip"
    archive.write_bytes(b"PK")
    told = f"{archive}: LP001 error llmperf-verify reads archive documents; install it with: "
    for path in (archive, tmp_path):
        assert told in ran(2, "validate", path).out
    assert told.replace(" LP001 error", "") in ran(2, "report", archive).err
    captured = ran(0, "report", tmp_path, "--format", "csv")
    assert captured.out.count("\n") == 2
    assert f"left out: {archive}: llmperf-verify reads archive documents" in captured.err

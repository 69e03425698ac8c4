"""Rules that an installed extension adds: found when a document is validated and when a result is made."""

from __future__ import annotations

import json
import sys

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.planning.build import plan_run
from llmperf.planning.request import Request
from llmperf.plugins.loading import load_for
from llmperf.runfolder import filenames
from llmperf.running.measure import check
from llmperf.types import Result

RULES = """
import llmperf
from llmperf.planning.build import plan_run
from llmperf.planning.request import Request
from llmperf.types import Finding

@llmperf.hookimpl
def llmperf_check_result(result):
    if result.hardware.driver is None:
        yield Finding(code="ACME1", severity="error", path="/hardware/driver", message="no driver version")
"""


@pytest.fixture
def acme_site(tmp_path_factory, monkeypatch):
    """An extension `acme_rules`, installed for this process."""
    site = tmp_path_factory.mktemp("site")
    info = site / "acme_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[llmperf.extension.v1]\nacme_rules = acme_rules\n")
    (site / "acme_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("acme_rules", None)


def test_an_installed_rule_speaks_in_validate(acme_site, tmp_path, example, capsys):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(example))
    assert call(["validate", str(path)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{path}:/hardware/driver: ACME1 error no driver version"
    assert second.startswith(f"{path}:/files: LP705 note ")


def test_an_installed_rule_is_chosen_by_its_code(acme_site, tmp_path, example, capsys):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(example))
    assert call(["validate", str(path), "--select", "acme"]) == 1
    assert "ACME1" in capsys.readouterr().out
    assert call(["validate", str(path), "--ignore", "ACME1"]) == 0
    assert call(["validate", str(path), "--select", "LP9999"]) == 2


def test_an_installed_rule_speaks_when_a_result_is_made(acme_site, run_folder):
    result = json_files.load(run_folder / filenames.RESULT, Result)
    checked = check(result, run_folder, load_for(None, None))
    assert [one.code for one in checked.findings] == ["ACME1"]
    assert json_files.load(run_folder / filenames.RESULT, Result) == checked
    assert "ACME1 error /hardware/driver" in (run_folder / filenames.REPORT).read_text()


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ("1", "expected a Finding of llmperf_check_result, found int"),
        ("Finding(code='ACME1', severity=7, path='', message='x')", "Expected `str`, got `int`"),
    ],
)
def test_an_extension_that_tells_no_finding_is_a_warning(acme_site, run_folder, told, cause):
    (acme_site / "acme_rules.py").write_text(RULES.replace("yield Finding", f"yield {told}\n        yield Finding"))
    result = json_files.load(run_folder / filenames.RESULT, Result)
    (finding,) = check(result, run_folder, load_for(None, None)).findings
    assert (finding.severity, cause in finding.message, "acme_rules" in finding.message) == ("warning", True, True)
    assert json_files.load(run_folder / filenames.RESULT, Result).findings == (finding,)


def test_a_broken_extension_does_not_keep_documents_from_being_checked(acme_site, tmp_path, example, capsys):
    (acme_site / "acme_rules.py").write_text("raise ImportError('libacme is missing')\n")
    path = tmp_path / "result.json"
    path.write_text(json.dumps(example))
    assert call(["validate", str(path)]) == 0
    assert "libacme is missing" in capsys.readouterr().err


def test_a_broken_extension_stops_no_run_and_stands_in_its_notes(acme_site):
    (acme_site / "acme_rules.py").write_text("raise ImportError('libacme is missing')\n")
    plan = plan_run(Request("default", vendor="cpu", framework="pytorch")).plan
    assert [note for note in plan.notes if "libacme is missing" in note] != []
    assert "acme_rules" not in [one.name for one in plan.plugins]

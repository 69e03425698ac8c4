"""Rules and kinds of document of installed packages: used when documents are validated and when results are made."""

import json
from pathlib import Path

import llmperf
import llmperf_schemas
import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.planning.build import plan_run
from llmperf.planning.states import Selection, Site
from llmperf.plugins.loading import load_for
from llmperf.runfolder import filenames
from llmperf.running.measure import check
from llmperf.types import Result
from llmperf.validation.catalogue import forget_catalogues

RULES = """
import llmperf
from llmperf.types import Rule

def driver_is_known(result):
    if result.hardware.driver is None:
        yield "/hardware/driver", "no driver version"

@llmperf.hookimpl
def llmperf_rules():
    yield Rule(code="ACME1", severity="error", title="The driver is known", check=driver_is_known,
               page="# ACME1: The driver is known\\n\\nAsk acme-smi.")
"""


@pytest.fixture
def acme_rules(install, tmp_path):
    """The module of an extension `acme_rules`."""
    install("acme-rules", "acme_rules", RULES, role="extension")
    return tmp_path / "acme_rules.py"


def test_an_installed_rule_speaks_in_validate(acme_rules, tmp_path, example, ran, saved):
    path = saved(tmp_path / "result.json", example)
    first, second = ran(1, "validate", path).out.splitlines()
    assert first == f"{path}:/hardware/driver: ACME1 error no driver version"
    assert second.startswith(f"{path}:/files: LP705 note ")


def test_an_installed_rule_is_chosen_and_explained_by_its_code(acme_rules, tmp_path, example, ran, saved):
    path = saved(tmp_path / "result.json", example)
    assert "ACME1" in ran(1, "validate", path, "--select", "acme").out
    assert call(["validate", str(path), "--ignore", "ACME1"]) == 0
    assert call(["validate", str(path), "--select", "LP9999"]) == 2
    assert "unknown rule 'ACME2'; did you mean 'ACME1'?" in ran(2, "validate", path, "--select", "ACME2").err
    assert ran(0, "validate", "--explain", "acme1").out == "# ACME1: The driver is known\n\nAsk acme-smi.\n"
    row = next(line for line in ran(0, "validate", "--rules").out.splitlines() if line.startswith("ACME1"))
    assert row.split() == ["ACME1", "error", "The", "driver", "is", "known", "result", "acme-rules"]


def test_an_installed_rule_speaks_when_a_result_is_made(acme_rules, run_folder):
    result = json_files.load(run_folder / filenames.RESULT, Result)
    checked = check(result, run_folder, load_for(None, None), ())
    assert [one.code for one in checked.findings] == ["ACME1"]
    assert json_files.load(run_folder / filenames.RESULT, Result) == checked
    assert "ACME1 error /hardware/driver" in (run_folder / filenames.REPORT).read_text()


@pytest.mark.parametrize(
    ("piece", "instead", "cause"),
    [
        ('yield "/hardware/driver", "no driver version"', "yield 1", "ACME1: expected pairs of a JSON pointer and a"),
        ("check=driver_is_known", "check=lambda _: None", "an iterable of (JSON pointer, message) pairs, found"),
        (
            'yield "/hardware/driver"',
            'yield "hardware.driver"',
            "pointer, such as /hardware/driver, found 'hardware.driver'",
        ),
        ('code="ACME1"', 'kinds=("reslt",), code="ACME1"', "unknown kind of document 'reslt'; did you mean 'result'?"),
        ('yield "/hardware/driver", "no driver version"', "1 / 0", "ACME1 of extension 'acme_rules' (acme-rules) was"),
        ('severity="error"', 'severity="bad"', "ACME1: expected a severity of error, warning, note, found 'bad'"),
        ('code="ACME1"', 'code="acme"', "expected a code such as ACME1, found 'acme'"),
        ('code="ACME1"', 'code="LP201"', "two rules have the code LP201, of core 'core' (llmperf-core) and of ext"),
        ('code="ACME1"', 'code="LP307"', "two rules have the code LP307, of extension 'verify' (llmperf-verify) and"),
        ("yield Rule", "raise KeyError('x')\n    yield Rule", "llmperf_rules raised KeyError: 'x'"),
    ],
)
def test_a_rule_that_fails_is_a_warning_that_names_its_package(acme_rules, request, piece, instead, cause):
    acme_rules.write_text(RULES.replace(piece, instead))
    run_folder = request.getfixturevalue("run_folder")  # made with the changed extension
    result = json_files.load(run_folder / filenames.RESULT, Result)
    (finding,) = check(result, run_folder, load_for(None, None), ()).findings
    assert (finding.code, finding.severity, "acme_rules" in finding.message) == ("LP901", "warning", True)
    assert cause in finding.message
    assert finding.message.count("(acme-rules)") == 1
    assert json_files.load(run_folder / filenames.RESULT, Result).findings == (finding,)


VENDOR = """
import llmperf
from pathlib import Path
from llmperf.types import DeviceInfo, Offers, PeakFlops, Probe, Rule

@llmperf.hookimpl
def llmperf_probe():
    offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    device = DeviceInfo(index=0, model="Acme A1", memory_bytes=2**34)
    return Probe(vendor="acme_chips", devices=(device,), offers=offers)

@llmperf.hookimpl
def llmperf_rules():
    yield Rule(code="CHIP7", severity="warning", title="The chip is cool", page=Path("CHIP7.md"),
               check=lambda result: [("/hardware", "expected a cool chip")])
    yield Rule(code="CHIP8", severity="warning", title="Plans name a driver", kinds=("plan",),
               check=lambda plan: [("/vendor", "a plan")])

@llmperf.hookimpl
def llmperf_resources():
    return [Path(__file__).parent / "shelf"]
"""


def test_a_vendors_rules_apply_to_the_documents_that_name_it(install, tmp_path, example, ran, capsys, saved):
    install("acme-chips", "acme_chips", VENDOR)
    path = saved(tmp_path / "result.json", example)
    assert "CHIP7" not in ran(0, "validate", path).out
    example["hardware"]["vendor"] = "acme_chips"
    path.write_text(json.dumps(example))
    assert ran(0, "validate", path, "--select", "CHIP").out == f"{path}:/hardware: CHIP7 warning expected a cool chip\n"
    plan = llmperf_schemas.example("plan") | {"vendor": "acme_chips"}
    path.with_name("plan.json").write_text(json.dumps(plan))
    assert call(["validate", str(path.with_name("plan.json")), "--select", "CHIP"]) == 0
    assert "plan.json:/vendor: CHIP8 warning a plan" in capsys.readouterr().out
    assert call(["validate", "--explain", "CHIP8"]) == 0
    assert capsys.readouterr().out.startswith("# CHIP8: Plans name a driver\n\nSeverity: warning. Applies to: plan.")


def test_fix_hp_is_checked_against_the_case_of_an_installed_plugin(install, tmp_path, example, capsys, saved):
    install("acme-chips", "acme_chips", VENDOR)
    (tmp_path / "shelf" / "cases").mkdir(parents=True)
    default = Path(llmperf.__file__).parent / "data" / "cases" / "default.toml"
    (tmp_path / "shelf" / "cases" / "acme_case.toml").write_text(
        default.read_text().replace('name = "default"', 'name = "acme_case"')
    )
    example["case"] = "acme_case"
    example["fix_hp"][0]["case_value"] = 99
    path = saved(tmp_path / "result.json", example)
    forget_catalogues()
    assert call(["validate", str(path), "--select", "LP64"]) == 1
    assert 'LP640 error expected 30 ("contract.steps" in case acme_case), found 99' in capsys.readouterr().out


KIND = """
import llmperf
from llmperf.types import DocumentKind, Fingerprint, Rule, Verdict

OUTCOMES = ("wrong", "agrees")

def read(path, named):
    lines = path.read_text().splitlines()
    return lines if len(lines) > 1 else None

@llmperf.hookimpl
def llmperf_document_kinds():
    yield DocumentKind(
        name="acme-log", title="a log of acme-smi", suffixes=(".acme",), read=read,
        recognise=lambda path, beginning, named: beginning().startswith("ACME"),
        plugins=lambda lines: [("vendor", "acme_chips")],
        fingerprints=lambda lines: [Fingerprint(pointer="/0", figures=tuple(lines))],
        line_of=lambda lines, pointer: int(pointer[1:]) + 1 if pointer else None,
        verdicts=lambda lines, findings: [Verdict(line=1, outcome=OUTCOMES[not findings], why=("acme-smi",))],
        closing=lambda verdicts: f"{len(verdicts)} logs of acme-smi",
    )

@llmperf.hookimpl
def llmperf_rules(kind):
    yield Rule(code="LOG1", severity="error", title="No line is hot", kinds=("acme-log",),
               check=lambda lines: [(f"/{n}", "hot") for n, line in enumerate(lines) if "hot" in line])
"""


def test_an_extension_brings_a_kind_of_document(install, tmp_path, ran):
    install("acme-logs", "acme_logs", KIND, role="extension")
    for name, text in {"a.acme": "ACME\n70 hot\n", "b.acme": "ACME\n20\n", "c.acme": "x\n", "d.acme": "ACME"}.items():
        (tmp_path / name).write_text(text)
    out, err = ran(1, "validate", tmp_path)
    assert out == f"{tmp_path}/a.acme:2:/1: LOG1 error hot\n"
    assert err.splitlines() == [
        f"{tmp_path}/a.acme: line 1: wrong: acme-smi",
        f"{tmp_path}/b.acme: line 1: agrees: acme-smi",
        "2 files: 1 error, 0 warnings (ruleset 9)",
        "2 logs of acme-smi",
    ]
    assert "d.acme: LP001 error expected a log of acme-smi, found none" in ran(2, "validate", tmp_path / "d.acme").out
    (tmp_path / "copy.acme").write_text("ACME\n20\n")
    assert f"copy.acme:1:/0: LP631 warning expected figures of its own, found those of {tmp_path}/b.acme" in (
        ran(0, "validate", tmp_path / "b.acme", tmp_path / "copy.acme").out
    )


def test_a_kind_of_document_that_fails_names_its_package(install, tmp_path, capsys):
    source = KIND.replace("lines = path.read_text()", "lines = 1 / 0 + path.read_text()")
    install("acme-logs", "acme_logs", source, role="extension")
    (tmp_path / "a.acme").write_text("ACME\n1\n")
    assert call(["validate", str(tmp_path)]) == 2
    assert "LP001 error extension 'acme_logs' (acme-logs): acme-log raised ZeroDivisionError" in capsys.readouterr().out


def test_a_second_kind_of_one_name_is_left_out(install, tmp_path, ran):
    install("acme-logs", "acme_logs", KIND, role="extension")
    install("acme-more", "acme_more", KIND.replace("LOG1", "LOG2"), role="extension")
    (tmp_path / "b.acme").write_text("ACME\n20\n")
    assert "left out: two kinds of document are called 'acme-log', of extension 'acme_logs' (acme-logs) and of ext" in (
        ran(2, "validate", tmp_path).err
    )


def test_a_broken_extension_does_not_keep_documents_from_being_checked(acme_rules, tmp_path, example, ran, saved):
    acme_rules.write_text("raise ImportError('libacme is missing')\n")
    path = saved(tmp_path / "result.json", example)
    shown = ran(2, "validate", path).err
    assert "libacme is missing" in shown
    assert "1 file: 0 errors" in shown


def test_a_broken_extension_stops_no_run_and_stands_in_its_notes(acme_rules):
    acme_rules.write_text("raise ImportError('libacme is missing')\n")
    plan = plan_run(Selection("default", framework="pytorch"), Site(vendor="cpu")).plan
    assert [note for note in plan.notes if "libacme is missing" in note] != []
    assert "acme_rules" not in [one.name for one in plan.plugins]

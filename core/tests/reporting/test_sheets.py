"""Sheets: one set of labelled rows for every format, for reporters of plugins too."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.reporting import leaves, result_sheet, shown
from llmperf.reporting.exports import CsvReporter, JsonReporter
from llmperf.reporting.markdown import MarkdownReporter
from llmperf.reporting.terminal import TerminalReporter, card
from llmperf.types import Result
from llmperf.validation.catalogue import forget_catalogues

COMPARED = (
    *("tokens_per_second_per_device", "step_seconds_median", "mfu_nominal", "rank_peak_bytes"),
    *("device_memory_used_bytes", "power_watts", "joules_per_token", "final_loss"),
)
"""Keys of the figures that are compared."""

REPORTER = """
from llmperf import hookimpl
from llmperf.reporting import ordered, shown

class Lines:
    name = "lines"
    def render(self, sheets, language):
        return "".join(f"{sheet.name}: {shown(sheet.cell('model'))} {sheet.figure}\\n" for sheet in ordered(sheets))

@hookimpl
def llmperf_reporters():
    return [Lines()]
"""


def figures(sheet):
    """The compared figures of a sheet by key."""
    rows = [*sheet.overview, *(row for section in sheet.sections() for row in section.rows)]
    return {row.key: row for row in leaves(rows) if row.key in COMPARED}


@pytest.fixture
def sheet(example):
    """Of a result whose figures do not end after a few digits."""
    for name, value in example["metrics"].items():
        if isinstance(value, float):
            example["metrics"][name] = value + 1 / 3
    example["metrics"] |= {"power_watts": 123.456789, "energy_joules": 100 / 3, "joules_per_token": 1 / 300}
    example["metrics"] |= {"tokens_per_joule": 300.0, "energy_source": "counter"}
    for mfu in example["mfu"]:
        mfu["value"] = 1 / 3
    return result_sheet(json_files.convert(example, Result, "result"), Path("runs/x/result.json"))


def test_a_figure_has_the_same_digits_in_every_format(sheet):
    texts = [
        card(sheet, verbose=True),
        MarkdownReporter().render([sheet], "en"),
        MarkdownReporter().render([sheet, sheet], "zh"),
    ]
    known = {key: shown(row) for key, row in figures(sheet).items()}
    assert set(known) == set(COMPARED)
    for key, digits in known.items():
        if key not in ("power_watts", "joules_per_token"):  # a document has them only together with the energy
            assert all(digits in text for text in texts), key
    table = TerminalReporter().render([sheet, sheet], "en")
    for key in ("tokens_per_second_per_device", "mfu_nominal", "final_loss", "device_memory_used_bytes"):
        assert known[key] in table, key


def test_reports_name_the_extension_that_counted_flops(example):
    assert "FLOPs counted by" not in card(result_sheet(json_files.convert(example, Result, "result")), verbose=True)
    for mfu in example["mfu"]:
        mfu["counted_by"] = "acme_moe"
    sheet = result_sheet(json_files.convert(example, Result, "result"))
    assert re.search(r"FLOPs counted by +extension acme_moe\n", card(sheet, verbose=True))
    assert "| extension acme_moe |" in MarkdownReporter().render([sheet], "en").replace("\\_", "_")


def test_programs_get_exact_values(sheet):
    (row,) = csv.DictReader(io.StringIO(CsvReporter().render([sheet], "en")))
    (document,) = json.loads(JsonReporter().render([sheet], "en"))
    for key, figure in figures(sheet).items():
        assert float(row[key]) == document["rows"][0][key] == figure.value


def test_a_format_of_an_extension_renders_runs_and_published_rows(install, run_folder, capsys):
    install("llmperf-lines", "lines", REPORTER, role="extension")
    published = Path(__file__).parents[3] / "extensions/published/src/llmperf_published/data" / "llama2_7b_lora_a100"
    assert call(["report", str(run_folder), str(published), "--format", "lines"]) == 0
    run, *rows = sorted(capsys.readouterr().out.splitlines(), key=lambda line: line.startswith("llama2_7b_lora"))
    assert run.endswith(": llama_mini 800.0")
    assert [row.split(":")[:2] for row in rows] == [["llama2_7b_lora_a100.md", line] for line in ("65", "64")]


def test_a_format_of_a_vendor_is_there_for_documents_that_name_it(install, example, tmp_path, ran, capsys, saved):
    install("llmperf-acme", "acme", REPORTER)
    path = saved(tmp_path / "result.json", example)
    assert call(["report", str(path), "--format", "lines"]) == 2
    assert "--format lines: offered by vendor 'acme' (llmperf-acme) only" in capsys.readouterr().err
    vendor = {"role": "vendor", "name": "acme", "distribution": "llmperf-acme", "version": "1.0", "source_hash": None}
    path.write_text(json.dumps(example | {"plugins": [*example["plugins"], vendor]}))
    assert ran(0, "report", path, "--format", "lines").out == f"{example['run_id']}: llama_mini 800.0\n"


@pytest.mark.slow
def test_a_format_of_the_core_wins_with_a_warning(install, run_folder, ran):
    install("llmperf-lines", "lines", REPORTER.replace('"lines"', '"json"'), role="extension")
    shown = ran(0, "report", run_folder, "--format", "json")
    assert json.loads(shown.out)
    rival = "reporter 'json' of extension 'lines' (llmperf-lines)"
    assert shown.err == f"llmperf: warning: {rival} is not used: llmperf-core has a reporter of this name\n"
    assert "extension lines: reporter 'json': llmperf-core has a reporter of this name" in ran(1, "doctor").out


REPORTERS = """
import llmperf

class Lines:
    name = "lines"
    def render(self, results, language):
        return {rendered}

class Named(Lines):
    name = 5

@llmperf.hookimpl
def llmperf_reporters():
    {body}
"""


@pytest.mark.parametrize(
    ("body", "rendered", "problem"),
    [
        ("raise OSError('gone')", "''", "llmperf_reporters raised OSError: gone"),
        ("return [object()]", "''", "which is no reporter"),
        ("return [Lines]", "''", "llmperf_reporters gave a class, Lines; expected an instance: Lines()\n"),
        ("return [Lines(), Lines()]", "''", "llmperf_reporters gave two reporters named 'lines'\n"),
        ("return [Named()]", "''", "llmperf_reporters gave a reporter whose name is 5; expected text\n"),
        ("return [Lines()]", "1 / 0", "the lines reporter raised ZeroDivisionError: division by zero"),
        ("return [Lines()]", "7", "expected a str of the lines reporter, found int"),
    ],
)
def test_a_reporter_that_cannot_be_used_is_one_line(install, run_folder, ran, body, rendered, problem):
    install("llmperf-lines", "lines", REPORTERS.format(body=body, rendered=rendered), role="extension")
    error = ran(2, "report", run_folder, "--format", "lines").err
    assert error.startswith("llmperf: extension 'lines' (llmperf-lines)")
    assert problem in error
    assert error.count("\n") == 1
    ran(0, "report", run_folder)  # a format of the core asks nobody else


def test_two_formats_of_one_name_are_refused_with_their_packages(install, run_folder, ran):
    install("llmperf-lines", "lines", REPORTER, role="extension")
    install("llmperf-rows", "rows", REPORTER, role="extension")
    error = ran(2, "report", run_folder, "--format", "lines").err
    assert "two reporters are named 'lines'" in error
    assert "llmperf-lines" in error
    assert "llmperf-rows" in error


def test_a_missing_format_of_the_project_is_named_with_its_package(run_folder, monkeypatch, capsys):
    from llmperf.plugins import loading

    with monkeypatch.context() as without_extensions:
        without_extensions.setattr(loading, "names", lambda role, known: [])
        assert call(["report", str(run_folder), "--format", "html"]) == 2
    forget_catalogues()  # they know no extension
    (line,) = capsys.readouterr().err.splitlines()
    assert "--format html: llmperf-html has this format; install it with: " in line

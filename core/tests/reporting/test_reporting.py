"""Reports: what a user reads of a result, and that a hostile result can do no harm in them."""

import csv
import io
import json
import re
from pathlib import Path

import llmperf_schemas
import pytest
import wcwidth
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.reporting.cells import fix_hp, shown
from llmperf.reporting.exports import CsvReporter, sheet_values
from llmperf.reporting.markdown import render_results
from llmperf.reporting.result_sheets import result_sheet
from llmperf.reporting.terminal import card
from llmperf.types import Change, Result

FAILURE = {"rank": 1, "reason": "exception", "exception": "ValueError", "message": "x | y", "log_tail": ["Traceback"]}


def typed(document):
    return json_files.convert(document, Result, "result")


def markdown(result, language="en"):
    return render_results([result], language)


def printed(result):
    return card(result_sheet(result), verbose=True)


def rows(text):
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in text.splitlines() if "  " in line)


def without_figures(example):
    """The example as a run that was killed before anything was measured."""
    unknown = [name for name, value in example["metrics"].items() if isinstance(value, float) or name.endswith("bytes")]
    example["metrics"] |= {**dict.fromkeys(unknown), "step_seconds": None, "rank_memory": [], "measured_steps": 0}
    for mfu in example["mfu"]:
        mfu |= dict.fromkeys(("value", *(name for name in mfu if name.startswith("peak_"))))
    return example | {"loss_curve": [], "status": "failed", "failure": FAILURE}


def test_the_table_shows_the_figures_with_their_units(example):
    shown = rows(printed(typed(example)))
    assert shown["token/p/s"] == "800.0"
    assert shown["MFU (nominal) *"] == "30.0 %"
    assert shown["HFU (hfu)"] == "34.7 %"
    assert shown["memory of a device, GiB"] == "3.0/8.0 in use by all, of total"
    assert shown["memory of a rank, GiB"] == "0.62 at most"
    assert shown["case"] == "default (variant)"
    assert shown["fix_hp"] == "steps=8 warmup_steps=2"
    assert "measured" in shown


def test_the_peak_shows_its_confidence_and_date_in_every_format(example):
    for mfu in example["mfu"]:
        mfu |= {"peak_confidence": "low", "peak_date": "2023-01"}
    result = typed(example)
    assert rows(printed(result))["peak"].endswith("on this host (confidence: low, 2023-01)")
    assert "| confidence | date |" in markdown(result)
    assert "| low | 2023-01 |" in markdown(result)
    assert {"peak_confidence": "low", "peak_date": "2023-01"}.items() <= sheet_values(result_sheet(result)).items()


def test_the_report_of_a_repeat_has_its_own_challenge_and_compile_time(example):
    for number in (1, 2):
        example |= {"challenge": f"{number}" * 16}
        example["metrics"]["compile_seconds"] = number
        text = markdown(typed(example))
        assert f"(of challenge {str(number) * 8})" in text
        assert f"compiling, s (not measured): {number}" in text


def test_overviews_mark_a_disturbed_run(example):
    warning = {"code": "LP409", "severity": "warning", "path": "/metrics/other_cpu_share", "message": "too much"}
    example |= {"findings": [warning], "peak_problem": "the host was busy"}
    example["metrics"]["other_cpu_share"] = 0.73
    sheet = result_sheet(typed(example))
    (status,) = (shown(row) for row in sheet.overview if row.key == "status")
    assert status == "complete, 1 warning, disturbed"
    (row,) = csv.DictReader(io.StringIO(CsvReporter().render([sheet], "en")))
    assert (row["status"], row["warnings"], row["errors"]) == ("complete", "1", "0")
    assert (row["other_cpu_share"], row["peak_problem"]) == ("0.73", "the host was busy")


def test_the_card_says_in_one_sentence_what_disturbed_a_run(example):
    assert "disturbed" not in rows(printed(typed(example)))
    example["metrics"] |= {"other_cpu_share": 0.73, "measured_steps": 60, "throttling": {"heat": 0.2, "power limit": 1}}
    at = [0.62, 0.66, 0.72, 0.78]
    quarters = [{"median": median, "p25": median - 0.01, "p75": median + 0.01} for median in at]
    example["metrics"]["step_seconds"]["quarters"] = quarters
    (node,) = example["conditions"]
    programs = [{"name": "cc1plus", "cpu_share": 0.6}, {"name": "python3", "cpu_share": 0.11}]
    node |= {"other_cpu_share": 0.73, "programs": programs, "swapped_bytes": 2**30}
    node["before"]["other_cpu_share"] = 0.4
    node["clock_hertz"] = [1.98e9, 1.98e9, 1.9e9, 1.9e9, 1.8e9, 1.8e9, 1.8e9, 1.8e9, 1.8e9, 1.78e9]
    node["throttling"] = {"heat": [0, 0, 0, 0, 0, None, 0.5, 0.5, 1, 1]}
    result = typed(example)
    assert rows(printed(result))["disturbed"] == (
        "other processes used 73 % of the cores (cc1plus 60 %, python3 11 %); a device was slowed by heat;"
        " the host swapped 1,024 MiB; the clocks fell by 10 %; the steps became 26 % slower"
    )
    text = markdown(result)
    assert "other processes use 40 % of the cores" in text
    assert "heat: 0 0 0 0 0 - 50 50 100 100" in text
    assert "1980 1980 1900 1900 1800" in text


def test_what_no_node_shows_is_left_out_of_the_conditions(example):
    header = next(line for line in markdown(typed(example)).splitlines() if line.startswith("| before the start"))
    assert "programs" in header
    assert not any(word in header for word in ("clock", "throttling", "devices", "node"))


def test_many_nodes_are_shown_by_the_busiest(example):
    node = example["conditions"][0]
    example["conditions"] = [node | {"node_rank": rank, "other_cpu_share": rank / 200} for rank in range(100)]
    (section,) = (section for section in result_sheet(typed(example)).sections() if section.key == "conditions")
    assert [record[0].value for record in section.records] == list(range(36, 100))
    assert section.lines == ("the 64 busiest nodes; result.json has all 100",)


def test_ranks_that_share_a_device_are_not_called_devices(example):
    example["hardware"]["device_share"] = 0.5
    text = markdown(typed(example))
    assert "nodes x ranks" in text
    assert "/ 2 ranks, which share a device" in text
    assert sheet_values(result_sheet(typed(example)))["tokens_per_second_per_whole_device"] == 1600.0
    example["hardware"]["device_share"] = 1
    text = markdown(typed(example))
    assert "nodes x devices" in text
    assert "/ 2 devices" in text


def test_unknown_is_a_dash_never_zero(example):
    result = typed(without_figures(example))
    shown = rows(printed(result))
    assert shown["token/p/s"] == "-"
    assert shown["MFU (nominal) *"] == "-"
    assert shown["peak"] == "-"
    assert shown["memory of a device, GiB"] == "-/- in use by all, of total"
    assert shown["loss"] == "-"
    assert shown["measured"] == "0 steps"
    assert shown["status"].startswith("failed: exception, rank 1: ValueError: x | y")
    assert "| Example CPU, 2 cores 1x2 |" in markdown(result)
    assert "| - | - | -/- | - |" in markdown(result)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ({"reason": "killed", "message": "rank 1 was killed by SIGKILL"}, "rank 1 was killed by SIGKILL"),
        ({"rank": None, "reason": "interrupted", "message": "interrupted by SIGINT"}, "interrupted by SIGINT"),
        ({"reason": "hung", "message": "rank 1 is at x.py in f"}, "hung, rank 1: rank 1 is at x.py in f"),
        ({"reason": "exited", "message": "rank 1 ended with status 3"}, "exited, rank 1: rank 1 ended with status 3"),
        ({"exception": "AssertionError", "message": ""}, "exception, rank 1: AssertionError"),
        ({"exception": "KeyError", "message": "'lm_head'"}, "exception, rank 1: KeyError: 'lm_head'"),
        ({"exception": "llmperf.errors.PluginError", "message": "framework 'x': no"},
         "exception, rank 1: framework 'x': no"),
    ],
)  # fmt: skip
def test_a_failure_is_told_once_with_the_type_of_its_exception(example, failure, told):
    result = typed(without_figures(example) | {"failure": FAILURE | {"exception": None} | failure})
    assert rows(printed(result))["status"] == f"failed: {told}"
    assert "exception" not in failure or f"failed: {told}" in markdown(result)


def test_changes_of_two_settings_of_one_name_are_told_apart():
    paths = {"contract.warmup_steps": 2, "contract.optimizer.warmup_steps": 3, "contract.seq_len": 64}
    changes = [Change(path=path, value=value, case_value=1, origin="--set") for path, value in paths.items()]
    assert fix_hp(changes) == "contract.warmup_steps=2 optimizer.warmup_steps=3 seq_len=64"
    assert fix_hp(changes[1:]) == "warmup_steps=3 seq_len=64"
    assert fix_hp([]) == "/"


def test_findings_stand_below_the_table(example):
    example["findings"] = [{"code": "LP302", "severity": "error", "path": "/mfu/0/value", "message": "expected less"}]
    assert printed(typed(example)).splitlines()[-1] == "LP302 error /mfu/0/value: expected less"
    assert "- LP302 error /mfu/0/value: expected less" in markdown(typed(example))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_markdown_has_the_sections_of_the_published_readmes(example, language):
    text = markdown(typed(example), language)
    english = ("Findings", "Environment", "Parallelism", "Optimisation strategy", "Batch", "General", "Performance")
    chinese = ("校验结果", "环境配置", "并行策略", "优化策略", "输入批尺寸", "通用指标", "性能指标")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    expected = english if language == "en" else chinese
    assert [heading for heading in headings if heading in expected] == list(expected)
    assert "| Example CPU, 2 cores 1x2 | steps=8 warmup_steps=2 | 800.0 | 7.5678 |" in text


def test_markdown_names_convention_formula_peak_and_source(example):
    text = markdown(typed(example))
    (line,) = [line for line in text.splitlines() if line.startswith("| nominal (headline) |")]
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    assert cells[1:4] == ["30.0 %", "3e+07", "6 x 5,000,000"]
    assert cells[5] == "8e+10 fp32"
    assert cells[6].startswith("largest of 5 products")
    assert "token/p/s = 6,144 tokens of 6 measured steps / 3.84 s / 2 ranks, which share a device" in text


def test_parts_of_an_evaluation_have_a_table_of_their_own(example):
    example["metrics"]["evaluation"] = {"mmlu_before": 0.25, "mmlu_after": 0.5, "mmlu_before/anatomy": 0.125}
    example["metrics"]["evaluation"] |= {"mmlu_after/anatomy": 0.375, "mmlu_after/virology": 1.0}
    text = markdown(typed(example))
    assert "mmlu_before=0.25 | mmlu_after=0.5 |" in text
    assert "mmlu_before/anatomy" not in text
    assert "| part | mmlu_before | mmlu_after |" in text
    assert "| anatomy | 0.125 | 0.375 |\n| virology | - | 1 |" in text
    assert [value for label, value in rows(printed(typed(example))).items() if "mmlu" in label] == ["0.25", "0.5"]


def test_report_takes_run_folders_and_files(tmp_path, example, ran, saved):
    saved(tmp_path / "a" / "result.json", example)
    failed = without_figures(llmperf_schemas.example("result")) | {"run_id": "b", "files": {}}
    other = saved(tmp_path / "b.json", failed)
    assert "token/p/s" in ran(0, "report", tmp_path / "a").out
    header, _, first, second, *_ = ran(0, "report", tmp_path / "a", other).out.splitlines()
    assert header.split()[:3] == ["model", "case", "device"]
    assert "800.0" in first
    assert "complete" in first
    assert "failed" in second


@pytest.mark.parametrize(("language", "title"), [("en", "Configuration and results, 3 runs"), ("zh", "3 次运行")])
def test_markdown_of_many_runs_is_one_document(tmp_path, example, ran, language, title, saved):
    for name, figure in (("slow", 10.0), ("fast", 30.0), ("middle", 20.0)):
        example["metrics"]["tokens_per_second_per_device"] = figure
        saved(tmp_path / name / "result.json", example | {"run_id": name, "files": {}})
    lines = ran(0, "report", tmp_path, "--format", "markdown", "--lang", language).out.splitlines()
    (first,) = [line for line in lines if line.startswith("# ")]
    assert lines[0] == first
    assert title in first
    rows = [line.split(" | ") for line in lines[2:7]]
    assert [row[-1].removesuffix(" |") for row in rows[2:]] == ["fast", "middle", "slow"]
    findings, *runs = [line for line in lines if line.startswith("## ")]
    assert [line.rpartition(", ")[2] for line in runs] == ["fast", "middle", "slow"]
    assert lines.index(findings) < lines.index(runs[0])
    assert any(
        re.match(r"- LP\d+ (error, 3 runs|错误, 3 次运行): fast: ", line) for line in lines[7 : lines.index(runs[0])]
    )
    assert not any(line.startswith("#####") for line in lines)


@pytest.mark.slow
def test_markdown_of_documents_and_runs_is_one_document_too(tmp_path, example, capsys, saved):
    published = Path(__file__).parents[3] / "extensions/published/src/llmperf_published/data"
    assert call(["report", str(saved(tmp_path / "result.json", example)), str(published), "--format", "markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("# ")] == ["# Configuration and results, 20 runs"]
    assert sum(line.startswith("## ") for line in lines) == 7
    assert lines[2].startswith("| model | case | device |")


def test_csv_and_json_keep_figures_unrounded(tmp_path, example, ran, saved):
    example["metrics"]["power_watts"] = None
    path = saved(tmp_path / "result.json", example)
    (row,) = csv.DictReader(io.StringIO(ran(0, "report", path, "--format", "csv").out))
    assert float(row["mfu_palm"]) == example["mfu"][2]["value"]
    assert (row["path"], row["power_watts"], row["tokens_per_second_per_device"]) == (str(path), "", "800.0")
    assert (row["variant"], "-" in row.values()) == ("true", False)
    printed = ran(0, "report", path, "--format", "json").out
    assert ran(0, "report", path, "--json").out == printed
    (document,) = json.loads(printed)
    assert document["path"] == str(path)
    assert document["result"] | {"findings": example["findings"]} == example
    assert document["rows"][0]["mfu_palm"] == example["mfu"][2]["value"]


def test_a_result_that_cannot_be_read_is_left_out_of_a_folder_and_told(tmp_path, example, ran):
    for name, text in (("good", json.dumps(example)), ("broken", '{"schema": "llmperf/result/1"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(text)
    out, err = ran(0, "report", tmp_path)
    assert example["title"] in out or example["case"] in out
    assert "left out" in err
    assert "broken/result.json" in err
    assert call(["report", str(tmp_path / "broken")]) == 2


def test_a_report_is_named_after_what_ran_not_after_the_cases_own_framework(tmp_path, example, ran, saved):
    example["tuning"]["framework"] = "pytorch"
    path = saved(tmp_path / "result.json", example)
    first = ran(0, "report", path, "--format", "markdown").out.partition("\n")[0]
    assert "by pytorch" in first
    assert "ZeRO" not in first
    assert example["run_id"] in first


def test_notes_are_shown_where_a_run_ends(example):
    example["notes"] = ["reading the devices failed: ValueError: no"]
    assert rows(printed(typed(example)))["note"] == example["notes"][0]


def test_a_terminals_table_in_chinese(tmp_path, example, ran, saved):
    path = str(saved(tmp_path / "result.json", example))
    verdict, _, *lines = ran(0, "report", path, "--lang", "zh", "--verbose").out.splitlines()
    assert verdict == "800.0 token/p/s, MFU 30.0 %, 有效, 1 个说明"
    assert lines[1].split() == ["运行状态", "完成"]
    assert (
        len(
            {
                wcwidth.wcswidth(line[: line.index(value)])
                for line, value in ((lines[1], "完成"), (lines[0], example["case"]))
            }
        )
        == 1
    )  # values stand below one another
    example["metrics"]["tokens_per_second_per_device"] += 1
    other = str(saved(tmp_path / "other.json", example | {"run_id": "other", "files": {}}))
    assert "硬件设备简称" in ran(0, "report", path, other, "--lang", "zh").out


def test_report_to_a_file(tmp_path, example, ran, saved):
    path = saved(tmp_path / "result.json", example)
    out = tmp_path / "report.md"
    assert ran(0, "report", path, "--format", "markdown", "--lang", "zh", "-o", out).out == ""
    assert "## 性能指标" in out.read_text(encoding="utf-8")
    assert call(["report", str(path), "-o", str(tmp_path / "none" / "x.md")]) == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"schema": 1}', ':/batch: missing key "batch"'),
        ("{", "not JSON"),
        ("[]", "expected object, found an array of 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(tmp_path, ran, content, expected):
    path = tmp_path / "result.json"
    path.write_text(content)
    (line,) = ran(2, "report", path).err.splitlines()
    assert str(path) in line
    assert expected in line


def test_missing_run_and_unknown_format(tmp_path, example, ran, saved):
    assert call(["report", str(tmp_path / "none")]) == 2
    first, second = ran(2, "report", saved(tmp_path / "result.json", example), "--format", "markdwn").err.splitlines()
    assert "no such file or folder" in first
    assert "did you mean 'markdown'?" in second

"""The page of `llmperf summary`: headings, columns, history, warnings."""

import json

from llmperf_compare.options import baselines


def test_the_summary_has_a_heading_for_each_model_and_contract_and_a_line_for_each_kind(runs_of_two_models, ran):
    lines = ran(0, "summary", runs_of_two_models).out.splitlines()
    headings = [line for line in lines if ", pretraining: " in line]
    assert [line.split(",")[0] for line in headings] == ["llama2_7b", "llama2_7b", "llama_tiny"]
    assert headings[0] == "llama2_7b, pretraining: default, fp32, 256 tokens x 4; changed: global_batch=4"
    kinds = [line for line in lines if line.startswith("1x2 ")]
    assert [line.split()[-1] for line in kinds] == ["30.0", "20.0", "9,000.0"]
    assert lines[lines.index(headings[0]) + 1] == kinds[0]


def test_the_framework_is_in_its_column_alone(runs_of_two_models, ran):
    path = runs_of_two_models / "run-0" / "result.json"
    document = json.loads(path.read_text())
    changes = [("tuning.framework", "zero", "pytorch"), ("tuning.micro_batch", 1, 2)]
    document["fix_hp"] += [
        {"path": name, "case_value": before, "value": value, "origin": "--set"} for name, before, value in changes
    ]
    path.write_text(json.dumps(document))
    out = ran(0, "summary", path, "--wide").out
    assert "micro_batch=2" in out
    assert "framework=" not in out


def test_the_summary_draws_the_history_of_a_kind(runs_of_two_models, ran):
    out = ran(0, "summary", runs_of_two_models, "--format", "markdown").out
    assert out.count("\n# ") + out.startswith("# ") == 1
    assert "| 2 | 20.0 | 100.0 % | ▁█ | 30.0 |" in out


def test_a_reason_that_holds_for_all_kinds_is_said_once(runs_of_two_models, ran):
    out = ran(0, "summary", runs_of_two_models, "--baseline", "published").out
    assert out.count("published rows are of whole devices") == 1


def test_a_warning_of_a_chinese_summary_has_a_chinese_colon(example, tmp_path, ran):
    example["metrics"]["other_cpu_share"] = 0.73
    (tmp_path / "result.json").write_text(json.dumps(example))
    warnings = [
        line for line in ran(0, "summary", tmp_path, "--lang", "zh").out.splitlines() if line.startswith("警告")
    ]
    assert warnings
    assert all(line.startswith("警告：") for line in warnings)


def test_shells_offer_shipped_documents_as_baselines():
    assert "published" in [item.value for item in baselines(None, None, "pub")]

"""Imported rows beside runs in `llmperf summary`: one ranking, marked as imported, in every format."""

import json
from pathlib import Path

import pytest
from llmperf.cases.library import library
from llmperf.files.json_files import encode
from llmperf_published.baselines import SHIPPED

BAICHUAN = str(SHIPPED / "baichuan2_13b_zero_h800")


@pytest.fixture
def runs(example, tmp_path, saved):
    """Two runs under the contract of the shipped row of 2,068 token/p/s, one faster and one slower."""
    shelf = library()
    case = shelf.case("baichuan2_13b_pretrain_zero")
    for speed in (2300.0, 1900.0):
        run = json.loads(json.dumps(example)) | {"run_id": f"run-{speed:.0f}", "case": "baichuan2_13b_pretrain_zero"}
        run |= {"fix_hp": [], "variant": False, "model": json.loads(encode(shelf.model(case.contract.model)))}
        run |= {"contract": json.loads(encode(case.contract)), "files": {"records/rank-00000.jsonl": f"{speed:064.0f}"}}
        run["hardware"] |= {"device_model": f"X{speed:.0f}", "device_share": 1.0, "nodes": 2, "devices_per_node": 8}
        run["parallelism"] |= {"nodes": 2, "devices_per_node": 8, "data_parallel": 16}
        run["metrics"]["tokens_per_second_per_device"] = speed
        folder = tmp_path / "runs" / run["run_id"]
        saved(folder / "result.json", run)
    return str(tmp_path / "runs")


def test_an_imported_row_is_ranked_between_runs_of_its_contract_and_marked(runs, ran):
    lines = ran(0, "summary", runs, BAICHUAN).out.splitlines()
    heading = next(place for place, line in enumerate(lines) if "bf16, 2048 tokens x 128" in line)
    first, second, third = (line.split() for line in lines[heading + 1 : heading + 4])
    assert first[:2] == ["2x8", "X2300"]
    assert first[-1] == third[-1] == "measured"
    assert second[:3] == ["2x8", "NVIDIA", "H800"]
    assert "2068" in second
    assert second[-4:] == ["16.3", "%", "imported:", "agrees"]
    assert third[:2] == ["2x8", "X1900"]


def test_a_row_of_another_batch_has_a_heading_of_its_own(runs, ran):
    out = ran(0, "summary", runs, BAICHUAN).out
    assert "baichuan2_13b, imported: bf16, 2048 tokens x 1024\n2x8 NVIDIA H800" in out
    assert "`agrees` says only that they agree with each other" in out


def test_imported_rows_are_chinese_in_a_chinese_summary(runs, ran):
    out = ran(0, "summary", runs, BAICHUAN, "--lang", "zh", "--wide").out
    assert "baichuan2_13b（导入）：bf16，2048 token x 1024\n2x8 NVIDIA H800" in out
    assert "sharding stage" not in out
    assert out.count("分片阶段") == 4
    table = ran(0, "summary", BAICHUAN, "--lang", "zh").out
    assert "  一致\n" in table
    assert "2 行已发布数据：2 行一致" in table


def test_a_computed_mfu_is_marked(runs, ran):
    out = ran(0, "summary", runs, str(SHIPPED / "llama1_paddle_a100")).out
    assert "57.4 % *  imported: not checked" in out
    assert "* computed by llmperf: the document prints none that is understood" in out


@pytest.mark.slow
def test_the_name_published_is_the_shipped_rows_from_any_folder(runs, tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    assert "imported: agrees" in ran(0, "summary", "runs", "published").out
    assert "NVIDIA H800" in ran(0, "report", "published", "--format", "csv").out
    assert "published/llama2_7b_lora_a100/published.json: line 65: agrees" in ran(0, "validate", "published").err


def test_programs_get_imported_rows_in_their_place_and_marked(runs, ran):
    members = json.loads(ran(0, "summary", runs, BAICHUAN, "--json").out)
    same = [member for member in members if member.get("beside_runs", member["measured"])]
    assert [member["measured"] for member in same] == [True, False, True]
    row = same[1]
    assert row["name"].endswith(":52")
    assert (row["verdict"], row["contract"]["global_batch"]) == ("agrees", "128")
    assert row["row"]["tokens_per_second_per_device"] == 2068


@pytest.mark.parametrize("form", ["markdown", "junit", "github", "sarif"])
def test_every_format_marks_imported_rows(runs, form, ran):
    out = ran(0, "summary", runs, BAICHUAN, "--format", form).out
    line = next(line for line in out.splitlines() if "2068" in line)
    assert "imported: agrees" in line


def test_imported_rows_have_a_cost_and_no_part_in_a_limit(runs, tmp_path, ran):
    prices = Path(tmp_path, "prices.toml")
    price = 'per_hour = 2.0\ncurrency = "USD"\ndate = 2026-11-01\nsource = "list"\n'
    prices.write_text(f'[prices."H800-80GB"]\n{price}')
    words = (runs, BAICHUAN, "--prices", str(prices), "--train-tokens", "100B")
    out = ran(0, "summary", *words).out
    assert "0.2686 USD" in next(line for line in out.splitlines() if "2068" in line)
    row = next(row for row in json.loads(ran(0, "summary", *words, "--json").out) if row.get("beside_runs"))
    assert row["train_cost"] == pytest.approx(2.0 * 100e9 / 2068 / 3600)
    assert row["price"]["source"] == "list"
    error = ran(1, "summary", runs, BAICHUAN, "--baseline", BAICHUAN, "--fail-below", "0.5").err
    assert "2 of 2 without a figure or without a baseline" in error

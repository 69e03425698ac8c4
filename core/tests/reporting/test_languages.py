"""Reports in Chinese: sentences, values, and the choice of the language."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import llmperf.cli
import llmperf.reporting
import pytest
from llmperf.cli.main import call
from llmperf.cli.run_text import show_repeats
from llmperf.files import json_files
from llmperf.reporting.finding_texts import finding_text, message_templates, tables_of_packages
from llmperf.reporting.words import FILE, sentence, value_text, word
from llmperf.types import Finding, Result, Row

TEMPLATES = {**message_templates()}
for tables in tables_of_packages(FILE):
    TEMPLATES |= tables["sentences"] | tables["values"]

FOLDERS = [Path(package.__file__).parent for package in (llmperf.reporting, llmperf.cli)]


def templates():
    """Every text in `reporting` and `cli` that is filled in and translated."""
    for path in (path for folder in FOLDERS for path in folder.glob("*.py")):
        if path.stem == "words":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "sentence":
                text = node.args[0]
                if isinstance(text, ast.Constant):
                    yield path.stem, text.value


def values(template):
    """The names of the values that a template takes."""
    return sorted(re.findall(r"{\w+}", template))


def test_every_sentence_has_a_translation_with_the_same_values():
    sentences = sorted(set(templates()))
    assert sentences
    for place, template in sentences:
        chinese = word(template, "zh")
        assert chinese != template or "{" not in template.replace("{kind}", ""), place
        assert values(chinese) == values(template), place


def test_translations_keep_their_values():
    for english, chinese in TEMPLATES.items():
        assert values(chinese) == values(english), english


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("complete", "完成"),
        ("invalid: 15 errors", "无效：15 个错误"),
        ("15 steps in 84.86 s", "15 步，共 84.86 s"),
        ("zero, TP1 x PP1 x DP2, sharding stage 1 over 2", "zero，TP1 x PP1 x DP2，2 路分片阶段 1"),
        ("some steps in a hurry", "some steps in a hurry"),
        ("a name, and more", "a name, and more"),
        ("imported: not checked", "导入：未检查"),
        ("failed: killed", "失败：被终止"),
        ("failed: oom, rank 3: complete", "失败：存储不足，进程 3：complete"),
        ("complete, 2 warnings", "完成，2 个警告"),
        ("data parallel, sharding stage 1", "数据并行，分片阶段 1"),
        ("TP2 x PP1, sharding stage 2", "TP2 x PP1，分片阶段 2"),
        ("imported: not checked (its MFU is withheld)", "导入：未检查（MFU 未公布）"),
        (
            "attention scores and values: 12 x 4 x 256 x 256; adapters: 6 x 1,024",
            "注意力得分与加权：12 x 4 x 256 x 256；适配器：6 x 1,024",
        ),
        ("contract (variant)", "contract（变体）"),
        ("3.6 USD an hour: contract, 2026-11-01, from a.toml", "每小时 3.6 USD：contract，2026-11-01，来自 a.toml"),
        (
            "other processes used 73 % of the cores (python 66 %); the steps became 24 % slower",
            "其他进程占用 73 % 的 CPU 核（python 66 %）；单步时间变慢了 24 %",
        ),
        (
            "2 published rows: 1 agree, 0 wrong, 1 not checked (1: its MFU is withheld)",
            "2 行已发布数据：1 行一致，0 行错误，1 行未检查（1 行：MFU 未公布）",
        ),
        ("model {x} of a document", "model {x} of a document"),
    ],
)
def test_values_are_translated_by_their_templates(english, chinese):
    assert word(english, "zh") == chinese
    assert word(english, "en") == english


@pytest.mark.parametrize("text", ["contract", "measured", "batch", "node 3", "12 steps", "complete, 1 warning"])
def test_texts_of_users_documents_and_machines_are_never_translated(text):
    assert value_text(Row(key="model", label="model", value=text), "zh") == text
    assert value_text(Row(key="fix_hp", label="fix_hp", value=None, text=text), "zh") == text


def test_words_of_llmperf_in_values_are_translated():
    assert value_text(Row(key="variant", label="variant", value=True), "zh") == "是"
    status = Row(key="status", label="status", value="failed", text="failed: hung", own_words=True)
    assert value_text(status, "zh") == "失败：无响应"


@pytest.mark.parametrize(
    ("finding", "chinese"),
    [
        (
            "LP201 error expected 800 (1600 tokens / 2 s / 1 devices), found 900",
            "LP201 错误 应为 800（1600 token / 2 s / 1 台设备），实际为 900",
        ),
        (
            "LP201 error expected inf (inf tokens / 2 s / 1 devices), found nan",
            "LP201 错误 应为 inf（inf token / 2 s / 1 台设备），实际为 nan",
        ),
        (
            "LP237 warning the steps became 24 % slower (median 1 s in the first quarter, 1.24 s in the last),"
            " expected at most 5 %",
            "LP237 警告 单步时间变慢了 24 %（中位数：第一个四分之一 1 s，最后一个四分之一 1.24 s），应不超过 5 %",
        ),
        (
            "LP409 warning other processes used 71 % of the host's cores during the run (batch 30 %),"
            " expected at most 10 %",
            "LP409 警告 运行期间其他进程占用了主机 71 % 的 CPU 核（batch 30 %），应不超过 10 %",
        ),
        (
            "LP506 error expected at most 12 (2 nats above an untrained model), found 20: training diverged",
            "LP506 错误 应不超过 12（比未训练的模型高 2 nats），实际为 20：训练发散",
        ),
        (
            "LP703 error expected 'failed' (computed again from the records), found 'complete'",
            "LP703 错误 由记录重新计算应为 'failed'，实际为 'complete'",
        ),
        ("LP999 note something else", "LP999 说明 something else"),
    ],
)
def test_findings_are_chinese_where_their_message_is_known(finding, chinese):
    code, severity, message = finding.split(" ", 2)
    parts = {"code": code, "severity": severity, "message": message}
    assert finding_text(Finding(path="", **parts), "zh") == chinese
    assert finding_text(Finding(path="/metrics", **parts)) == f"{code} {severity} /metrics: {message}"


def test_values_in_a_sentence_are_not_taken_for_templates():
    assert sentence("all: {kind}", "zh", kind="{name}") == "均为：{name}"


@pytest.mark.parametrize(
    ("locale", "language"),
    [
        ({"LC_ALL": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LC_ALL": "C", "LANG": "zh_CN"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_follows_the_locale_unless_lang_is_given(example, tmp_path, monkeypatch, capsys, locale, language):
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(example))
    assert call(["report", str(path), "--format", "markdown"]) == 0
    assert ("性能指标" in capsys.readouterr().out) == (language == "zh")
    assert call(["report", str(path), "--format", "markdown", "--lang", "en"]) == 0
    assert "Performance" in capsys.readouterr().out


def test_validate_speaks_chinese_to_people_and_not_to_programs(example, tmp_path, capsys):
    path = tmp_path / "result.json"
    example["metrics"]["tokens_per_second_per_device"] *= 2
    path.write_text(json.dumps(example))
    assert call(["validate", "--lang", "zh", "--select", "LP201", str(path)]) == 1
    printed = capsys.readouterr()
    assert f"{path}:/metrics/tokens_per_second_per_device: LP201 错误 应为 " in printed.out
    assert printed.err == "1 个文件：1 个错误，0 个警告（规则集 9）\n"
    assert call(["validate", "--lang", "zh", "--json", str(path)]) == 1
    chinese = capsys.readouterr().out
    assert call(["validate", "--lang", "en", "--json", str(path)]) == 1
    assert chinese == capsys.readouterr().out
    assert "expected" in chinese


def test_repeats_end_with_a_chinese_table_and_spread(example, capsys):
    result = json_files.convert(example, Result, "result")
    show_repeats([(Path("runs/a"), result), (Path("runs/b"), replace(result, status="failed"))], "zh")
    printed = capsys.readouterr().out
    assert printed.split("\n")[0].split()[0] == "运行目录"
    assert "完成" in printed
    assert "失败" in printed
    assert "没有离散程度：2 次运行中完成 1 次" in printed

"""Reports in Chinese: sentences, values, and the choice of the language."""

import ast
import json
import pickle
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import Formatter

import pytest
from llmperf.cli.main import call
from llmperf.cli.run import show_repeats
from llmperf.files import json_files
from llmperf.reporting.words import finding_text, recorded, sentence, value_text, word
from llmperf.types import Finding, Result, Row, Text
from llmperf.validation.check import findings
from llmperf_zh.plugin import llmperf_translations

PUBLISHED = ("{}: {} agree, {} wrong, {} not checked{}{}", Text("{} published rows", 2), 1, 0, 1,
             Text(" ({})", Text("{}: {}", 1, Text("its MFU is withheld"))), "")  # fmt: skip


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        (Text("complete"), "完成"),
        (Text("invalid: {}", Text("{} errors", 15)), "无效：15 个错误"),
        (Text("{} steps in {} s", 15, "84.86"), "15 步，共 84.86 s"),
        (
            Text("{}, {}", "zero", Text("{}, sharding stage {} over {}", "TP1 x PP1 x DP2", 1, 2)),
            "zero，TP1 x PP1 x DP2，2 路分片阶段 1",
        ),
        (Text("some {} in a hurry", Text("steps")), "some 训练步数 in a hurry"),
        (Text("{} (variant)", "contract"), "contract（变体）"),
        (Text("{:g} {} an hour: {}, {}, from {}", 3.6, "USD", "contract", "2026", "a.toml"),
         "每小时 3.6 USD：contract，2026，来自 a.toml"),
        (
            Text.joined("; ", [Text("other processes used {:.0f} % of the cores{}", 73, Text(" ({})", "python 66 %")),
                               Text("the steps became {:.0f} % slower", 24)]),
            "其他进程占用 73 % 的 CPU 核（python 66 %）；单步时间变慢了 24 %",
        ),
        (Text(*PUBLISHED), "2 行已发布数据：1 行一致，0 行错误，1 行未检查（1：MFU 未公布）"),
    ],
)  # fmt: skip
def test_texts_are_translated_by_their_templates(english, chinese):
    assert word(english, "zh") == chinese
    assert word(english, "en") == english


@pytest.mark.parametrize(
    ("recorded_text", "chinese"),
    [
        ("complete", "完成"),
        ("a name, and more", "a name, and more"),
        ("data parallel, sharding stage 1", "数据并行，分片阶段 1"),
        (
            "attention scores and values: 12 x 4 x 256 x 256; adapters: 6 x 1,024",
            "注意力得分与加权：12 x 4 x 256 x 256；适配器：6 x 1,024",
        ),
        ("expected one column of 'MFU'; this one is not read as that", "'MFU' 应只有一列；此列未按其读取"),
        ("model {x} of a document", "model {x} of a document"),
    ],
)
def test_texts_that_documents_have_are_translated_by_their_numbers_and_quotes(recorded_text, chinese):
    assert recorded(recorded_text, "zh") == chinese
    assert recorded(recorded_text, "en") == recorded_text


@pytest.mark.parametrize("text", ["contract", "measured", "batch", "node 3", "12 steps", "complete, 1 warning"])
def test_texts_of_users_documents_and_machines_are_never_translated(text):
    assert value_text(Row(key="model", label="model", value=text), "zh") == text
    assert value_text(Row(key="fix_hp", label="fix_hp", value=None, text=text), "zh") == text


def test_words_of_llmperf_in_values_are_translated():
    assert value_text(Row(key="variant", label="variant", value=True), "zh") == "是"
    status = Row(
        key="status", label="status", value="failed", text=Text("{}: {}", Text("failed"), Text("hung")), own_words=True
    )
    assert value_text(status, "zh") == "失败：无响应"


def test_findings_are_chinese(example):
    example["metrics"]["tokens_per_second_per_device"] *= 2
    example["metrics"]["final_loss"] = 20.0
    found = {one.code: one for one in findings("result", json_files.convert(example, Result, "result"))}
    texts = {code: finding_text(finding, "zh") for code, finding in found.items()}
    assert re.fullmatch(
        r"LP201 错误 /metrics/\w+：应为 [\d.]+（\d+ token / [\d.]+ s / 2 台设备），实际为 [\d.]+", texts["LP201"]
    )
    assert re.fullmatch(r"LP506 .*应不超过 [\d.]+（比未训练的模型高 \d nats），实际为 20：训练发散", texts["LP506"])
    assert finding_text(found["LP201"]) == f"LP201 error {found['LP201'].path}: {found['LP201'].message}"
    others = Finding(code="LP999", severity="note", path="", message="something else")
    assert finding_text(others, "zh") == "LP999 说明 something else"


def test_texts_cross_processes_and_files_as_what_they_are():
    text = Text("expected {}, found {:.1f}", Text("at most {}", 8), 9)
    again = pickle.loads(pickle.dumps(text))
    assert (again, again.template, again.values) == (text, text.template, text.values)
    assert json_files.encode({"text": text}) == b'{"text":"expected at most 8, found 9.0"}'


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
def test_the_language_is_that_of_the_locale_or_of_lang(example, tmp_path, monkeypatch, ran, locale, language, saved):
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    path = saved(tmp_path / "result.json", example)
    assert ("性能指标" in ran(0, "report", path, "--format", "markdown").out) == (language == "zh")
    assert "Performance" in ran(0, "report", path, "--format", "markdown", "--lang", "en").out


def test_validate_speaks_chinese_to_people_and_not_to_programs(example, tmp_path, ran):
    path = tmp_path / "result.json"
    example["metrics"]["tokens_per_second_per_device"] *= 2
    path.write_text(json.dumps(example))
    printed = ran(1, "validate", "--lang", "zh", "--select", "LP201", path)
    assert f"{path}:/metrics/tokens_per_second_per_device: LP201 错误 应为 " in printed.out
    assert printed.err == "1 个文件：1 个错误，0 个警告（规则集 9）\n"
    chinese = ran(1, "validate", "--lang", "zh", "--json", path).out
    assert chinese == ran(1, "validate", "--lang", "en", "--json", path).out
    assert "expected" in chinese


def test_repeats_end_with_a_chinese_table_and_spread(example, capsys):
    result = json_files.convert(example, Result, "result")
    show_repeats([(Path("runs/a"), result), (Path("runs/b"), replace(result, status="failed"))], "zh")
    printed = capsys.readouterr().out
    assert printed.split("\n")[0].split()[0] == "运行目录"
    assert "完成" in printed
    assert "失败" in printed
    assert "没有离散程度：2 次运行中完成 1 次" in printed


def test_tables_and_facts_have_headings_of_the_reader(capsys):
    call(["cases", "--lang", "zh"])
    assert capsys.readouterr().out.split()[:3] == ["测例", "模型", "框架"]
    call(["estimate", "llama2_7b_pretrain_zero", "--on", "A100-SXM4-80GB:1x8", "--analytic", "--lang", "zh"])
    answer, _, first, *_ = capsys.readouterr().out.splitlines()
    assert "放得下：46.1/80.0 GiB" in answer
    assert first.startswith("测例  ")


ROOT = Path(__file__).parents[3]
[CHINESE] = llmperf_translations("zh")
FUNCTIONS = ("Text", "word", "sentence", "labelled", "Row", "Section", "Column")
"""Functions whose first argument (of `labelled` the second), `label` or `title` is a text that is translated."""
SOURCES = [
    path
    for folder in ("core", "testing", "vendors/*", "frameworks/*", "launchers/*", "extensions/*")
    for path in sorted(ROOT.glob(f"{folder}/src/**/*.py"))
]


def texts(source: str) -> Iterator[str]:
    """The texts and templates that a module shows in the language of a reader."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
            first = node.args[1:2] if name == "labelled" else node.args[:1]
            shown = [*first, *(each.value for each in node.keywords if each.arg in ("label", "title"))]
            for text in shown if name in FUNCTIONS else ():
                chosen = (text.body, text.orelse) if isinstance(text, ast.IfExp) else (text,)
                yield from (one.value for one in chosen if isinstance(one, ast.Constant) and isinstance(one.value, str))


def templates(source: str) -> Iterator[str]:
    """The texts with `{}` in a module that makes a `Text`, also those that a variable holds."""
    constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    held = [text for text in constants if isinstance(text, str) and re.search(r"\w.*{[:}]", text)]
    yield from (text for text in held if "Text(" in source and not re.search(r"[`\n\\]", text))  # no code, no patterns


def values(template: str) -> Counter[tuple[str, str, str]]:
    """The values of a template, each with its conversion and format; the places of `{}` by number."""
    parts = [part for part in Formatter().parse(template) if part[1] is not None]
    return Counter((name or str(place), form or "", how or "") for place, (_, name, form, how) in enumerate(parts))


def test_texts_are_found_where_they_are_made():
    source = 'word("device", language), Text("{} of {}", 1, Text("steps" if many else "step")), Row(label="rank")'
    assert list(texts(source)) == ["device", "{} of {}", "rank", "steps", "step"]
    assert list(templates('template = "of {} steps"\nText(template, 2)')) == ["of {} steps"]


@pytest.mark.parametrize("path", [path for path in SOURCES if any(map(path.read_text().__contains__, FUNCTIONS))],
                         ids=lambda path: "/".join(path.parts[-3:]))  # fmt: skip
def test_every_text_has_a_translation(path):
    source = path.read_text()
    missing = [text for text in (*texts(source), *templates(source)) if text.strip() and text not in CHINESE]
    assert not missing, "add them to extensions/zh/src/llmperf_zh/zh.po"


def test_translations_keep_the_values_and_their_formats():
    for english, chinese in CHINESE.items():
        assert (values(chinese), "{}" in chinese) == (values(english), False), english
    assert llmperf_translations("de") == []

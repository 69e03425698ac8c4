"""Foreign text in results and in imported documents stays text, in every format and wherever it stands."""

import copy
import csv
import io
import json
from functools import cache
from pathlib import Path

import llmperf_schemas
import pytest
from llmperf.cases.library import library
from llmperf.files import json_files
from llmperf.reporting.exports import CsvReporter, JsonReporter
from llmperf.reporting.markdown import MarkdownReporter, render_results
from llmperf.reporting.result_sheets import result_sheet
from llmperf.reporting.terminal import TerminalReporter
from llmperf.types import Result
from llmperf_html.plugin import HtmlReporter
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from llmperf_published.reporting.markdown import published_markdown
from llmperf_published.reporting.sheets import published_sheets

PAYLOADS = [
    "=HYPERLINK(1)", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1+1", "\r\n=1+1", " =1+1", "＝1+1", "＠SUM(1)",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</table><h1>x", "&lt;script&gt;", "<!-- x",
    "[a](javascript:alert(1))", "![a](http://e.invalid/x.png)", "[a]: http://e.invalid", "<http://e.invalid>",
    "a | b | c", "a \\| b", "a\\", "`a", "```\nx", "a\n\n# b", "\n| a | b |\n|---|---|", "~~~",
    "\x1b[2J\x1b]0;t\x07", "\x9b2J", "\x7f\x08\x08", "a\rb", "\u202etxt", "\u2028x", "{{7*7}}", "${x}", "%s%n", "\x00",
]  # fmt: skip
FORMULA = tuple("=+-@\t\r＝＋－＠")
MADE = "# t\n## 硬件环境\n- 加速卡型号: {0}\n## 优化策略\n- {0}\n## {0}\n- {0}\n\n{0}\n\n> {0}\n\n## 性能指标\n"
TABLE = "| 配置 | {0} | fix_hp | token/p/s | loss | mem | MFU |\n|---|---|---|---|---|---|---|\n| A100 (1x8) {0} "
ROW = "| {0} | GAS={0} | {0} | {0} | {0} | {0} |\n| {0} | 1 | GAS=2 | 12 | 1.5 | 3/4 | 5% |\n"


def hostile_result(payload):
    """The example with the payload in every place that takes any text."""
    document = copy.deepcopy(llmperf_schemas.example("result"))
    for name in ("run_id", "created", "finished", "case", "title"):
        document[name] = payload
    document["model"] |= {"name": payload, "title": payload, "source": payload}
    document["contract"] |= {"model": payload, "dataset": payload}
    document["tuning"] |= {"framework": payload, "fused_ops": [payload]}
    document["framework"] = {payload: payload}
    document["hardware"] |= dict.fromkeys(("vendor", "device_model", "driver", "interconnect", "host_cpu"), payload)
    document["software"] |= {"os": payload, "kernel": payload, "python": payload, "packages": {payload: payload}}
    document["software"]["environment"] = {payload: payload}
    document["fix_hp"] = [{"path": payload, "case_value": payload, "value": payload, "origin": payload}]
    document["metrics"]["evaluation"] = {payload.replace("/", ""): 0.5, f"x/{payload}": 0.5}
    document["metrics"]["throttling"] = {payload: 0.5}
    document["notes"] = [payload]
    document["status"] = "failed"
    document["failure"] = {"rank": 1, "reason": "exception", "exception": payload, "message": payload,
                           "log_tail": ["Traceback", payload]}  # fmt: skip
    document["findings"] = [{"code": payload, "severity": "note", "path": payload, "message": payload}]
    for mfu in document["mfu"]:
        mfu |= {"formula": payload, "leaves_out": [payload], "peak_dtype": payload, "peak_source": payload}
    for plugin in document["plugins"]:
        plugin |= {"name": payload, "distribution": payload, "version": payload}
    return json_files.convert(document, Result, "result")


@pytest.fixture(scope="module")
def known():
    return Known.of(library())


def document_with(payload, known):
    """An imported document with the payload in every kind of place."""
    text = (MADE + TABLE + ROW).format(payload.replace("\0", ""))
    return import_document(text.encode(), "README.md", known)


@pytest.fixture(params=PAYLOADS, ids=ascii, scope="module")
def shown(request, known):
    """What is shown of the payload: `shown(format, language)` gives the texts of results and imported documents."""
    results = [result_sheet(hostile_result(request.param), Path(name)) for name in ("r.json", "s.json")]
    imported = list(published_sheets(document_with(request.param, known), Path("p.json"), ()))
    reporters = [TerminalReporter(), MarkdownReporter(), CsvReporter(), JsonReporter(), HtmlReporter()]

    @cache
    def show(wanted, language="en"):
        (reporter,) = [reporter for reporter in reporters if reporter.name == wanted]
        several = (results, results[:1], imported or results, results + imported)
        return [reporter.render(sheets, language) for sheets in several]

    return show


def test_nothing_moves_the_cursor_of_a_terminal(shown):
    for wanted in ("terminal", "markdown", "csv", "json"):
        for text in shown(wanted):
            assert [line for line in text.split("\n") if not line.isprintable()] == []


def test_no_spreadsheet_finds_a_formula_and_every_row_has_the_columns_of_the_header(shown):
    for text in shown("csv"):
        for row in csv.reader(io.StringIO(text)):
            for cell in row:
                assert not cell.startswith(FORMULA) or float(cell) is not None, cell
    for text in shown("csv"):
        header, *rows = csv.reader(io.StringIO(text))
        assert {len(row) for row in rows} <= {len(header)}


HARMFUL = {"html_inline", "html_block", "link_open", "image", "fence", "code_block", "code_inline"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_markdown_has_no_tag_link_or_code_of_foreign_text(shown, language):
    markdown_it = pytest.importorskip("markdown_it")
    for text in shown("markdown", language):
        outside_logs = "\n".join(line for line in text.split("\n") if not line.startswith("    "))
        assert len([line for line in outside_logs.split("\n") if line.startswith("# ")]) <= 1
        tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(outside_logs)
        kinds = {token.type for outer in tokens for token in (outer, *(outer.children or ()))}
        assert not kinds & HARMFUL, kinds & HARMFUL


def widths(text):
    """Cells of each row of each table: one more bar than cells that is not escaped."""
    rows = [line.replace("\\\\", "").replace("\\|", "") for line in text.split("\n") if line.startswith("|")]
    return [row.count("|") - 1 for row in rows if dashless(row)]


def dashless(text):
    """Whether anything is in it but bars, dashes and spaces: such rows look like those under the headers."""
    return bool(text.strip("|- "))


@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
def test_no_row_of_a_markdown_table_gets_another_cell(payload, known):
    assert widths(render_results([hostile_result(payload)])) == widths(render_results([hostile_result("x")]))
    document = document_with(payload, known)
    lines = []
    for one in document.tables:
        lines += [[column.header for column in one.columns], *(row.cells for row in one.rows)]
    assert widths(published_markdown(document)) == [len(cells) for cells in lines if any(map(dashless, cells))]


def test_the_page_has_no_element_of_foreign_text(shown):
    from llmperf_html.page import html

    plain = html((), "en")
    for text in shown("html"):
        for harm in ("<script", "<img", "<h1", "<!--"):
            assert text.count(harm) == plain.count(harm)
        assert text.count("</table") == text.count('<table class="bars">') + text.count('<table class="data">')


def test_json_gives_the_text_back(shown):
    """It is data: escaped, but the same."""
    for text in shown("json"):
        assert json.loads(text)

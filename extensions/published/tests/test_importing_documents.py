"""Documents that nobody has seen yet: generated ones, broken ones, hostile ones."""

import json
from pathlib import Path

import generated_documents as generated
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.reporting.exports import CsvReporter, JsonReporter
from llmperf.reporting.markdown import MarkdownReporter
from llmperf.reporting.terminal import TerminalReporter
from llmperf.validation.schema import schema_findings
from llmperf_published.reading.document import MAX_LINE, MAX_LINES, import_document
from llmperf_published.reporting.markdown import published_markdown
from llmperf_published.reporting.sheets import published_sheets
from llmperf_published.rules.identity import document_is_that_of_its_text
from llmperf_schemas import load
from published_tables import KNOWN, SOURCES, read

SEEDS = [path.read_text(encoding="utf-8") for path in SOURCES.values()]
FEW = settings(max_examples=25, deadline=None)
MANY = settings(max_examples=150, deadline=None)
HOSTILE = "<script>alert(1)</script> [a](javascript:b) `c` \x1b[2J \u202e {0} =1+1 ${{x}} %n ![](x)"


def checked(text):
    """What a text says, or None where it is refused; a document that is made can be saved, checked and shown."""
    try:
        published = read(text)
    except UserError:
        return None
    assert schema_findings(load("published"), json.loads(json_files.encode(published))) == []
    if published.rows:
        assert list(document_is_that_of_its_text.check(published)) == []
    reporters = (TerminalReporter(), MarkdownReporter(), CsvReporter(), JsonReporter())
    reporter, language = reporters[len(text) % 4], ("en", "zh")[len(text) // 4 % 2]
    sheets = list(published_sheets(published, Path("published.json"), ()))
    assert reporter.render(sheets, language) or not sheets
    return published


def close(figure, value, digits):
    return figure.value == pytest.approx(value, abs=0.51 * 10.0**-digits)


def same(row, meant, columns):
    metrics = row.metrics
    assert (row.hardware.nodes, row.hardware.devices_per_node) == (meant.nodes, meant.devices)
    figures = {
        "throughput": (metrics.tokens_per_second_per_device, meant.throughput, meant.digits),
        "loss": (metrics.loss, meant.loss, 2),
        "mfu": (metrics.mfu, meant.mfu and meant.mfu / 100, 3),
    }
    for name, (figure, value, digits) in figures.items():
        if name not in columns:
            assert figure is None
        else:
            assert figure.value is None if value is None else close(figure, value, digits), name
    if "memory" in columns:
        used = tuple(item.each.value for item in metrics.memory.used)
        assert (*used, *([metrics.memory.total.value] if metrics.memory.total else [])) == (meant.memory or ())
    if "parallel" in columns:
        layout = row.parallelism
        assert (layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel) == meant.layout
    assert metrics.aligned is (meant.aligned if "aligned" in columns else None)
    assert row.batch.gradient_accumulation == (meant.accumulation if "fix_hp" in columns else None)


@pytest.mark.slow
@given(generated.documents())
@settings(max_examples=40, deadline=None)
def test_generated_documents_are_read_as_they_were_meant(document):
    published = checked(document.text)
    assert published.unread == ()
    assert published.source.language == ("zh" if document.chinese else "en")
    assert len(published.rows) == len(document.rows)
    for row, meant in zip(published.rows, document.rows, strict=True):
        same(row, meant, document.columns)
        assert (row.batch.micro_batch, row.batch.seq_len) == tuple(document.defaults.values())


@given(generated.documents(), st.sampled_from(["en", "zh"]))
@settings(max_examples=40, deadline=None)
def test_a_markdown_report_is_imported_as_the_same_rows(document, language):
    published = read(document.text)
    again = read(published_markdown(published, language))
    assert [row.cells for table in again.tables for row in table.rows if table.kind == "performance"] == [
        row.cells for table in published.tables for row in table.rows if table.kind == "performance"
    ]
    assert [row.metrics for row in again.rows] == [row.metrics for row in published.rows]
    assert [row.batch for row in again.rows] == [row.batch for row in published.rows]
    assert again.unread == ()


FORMS = [
    "{}", "- {}", "  3. {}", "## {}", "### 硬件环境 {}", "> {}", "| {} |", "| a | b | c | {} |", "{}：x", "|{}",
    "- OS：{}", "```{}\n```", "```\n{}\n```", "[x]({})", "* {}", "- {}, 默认为1", "- 并行技术：{}", "数据集为{}",
    "| {} | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |", "| A100 (1x8) | {} | 2 | 3 | 4 | 5 |",
    "| A100 (1x8) | / | {}=3 | 3 | 4 |", "~~~\n{}",
    "<table><tr><td>{}</td></tr></table>", "<table>\n{}", "<table>{}<tr><td><b>1</b></table>",
]  # fmt: skip


def no_line_is_dropped(seed, form, data):
    """Wherever a line is put, its text is in the document that is made."""
    lines = seed.split("\n")
    lines.insert(data.draw(st.integers(0, len(lines))), form.format("zqxtoken"))
    published = checked("\n".join(lines))
    assert "zqxtoken" in json_files.encode(published).decode()


SOME_LINE = given(st.sampled_from(SEEDS), st.sampled_from(FORMS), st.data())
test_no_line_is_dropped_in_silence = FEW(SOME_LINE(no_line_is_dropped))
test_none_of_many_lines_is_dropped_in_silence = pytest.mark.slow(MANY(SOME_LINE(no_line_is_dropped)))


def words(text):
    return [word.strip("*#|-`>:") for word in text.replace("|", " ").replace("\\", "").split()]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_word_of_the_published_documents_is_in_the_imported_one(seed):
    made = json.dumps(json_files.builtins(read(seed)), ensure_ascii=False).replace("\\\\", "").replace('\\"', '"')
    made = made.replace("\\n", " ")
    for word in words(seed):
        for part in word.replace("：", ":").replace("恒等于", ":").replace("，", ":").replace("](", ":").split(":"):
            part = part.strip("(),*[]")
            if part and not part.rstrip(".").isdigit() and part not in ("环境配置", "运行情况"):
                assert part in made, word


def mutated_documents_are_read_or_refused(seed, data):
    lines = seed.split("\n")
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, max(len(lines) - 1, 0)))
        kind = data.draw(st.sampled_from(["drop", "twice", "cut", "swap", "noise", "digits"]))
        line = lines[at] if lines else ""
        lines[at : at + 1] = {
            "drop": [],
            "twice": [line, line],
            "cut": [line[: data.draw(st.integers(0, len(line)))]],
            "swap": [line[::-1]],
            "noise": [line.replace(data.draw(st.sampled_from("|=/*（x ")), data.draw(st.text(max_size=8)))],
            "digits": [line.replace("8", data.draw(st.sampled_from(["0", "99999999999", "-1", "1e300", "８", "八"])))],
        }[kind]
    checked("\n".join(lines))


SOME_SEED = given(st.sampled_from(SEEDS), st.data())
test_mutated_documents_are_read_or_refused = FEW(SOME_SEED(mutated_documents_are_read_or_refused))
test_many_mutated_documents_are_read_or_refused = pytest.mark.slow(
    MANY(SOME_SEED(mutated_documents_are_read_or_refused))
)


@given(st.text(max_size=300))
@settings(max_examples=40, deadline=None)
def test_any_text_is_read_or_refused(text):
    checked(text)


TABLE_CELL = st.text(st.sampled_from("0123456789|\\*/-=+.,%()xGBTPDS 机卡（）：\n`#>\x1b<"), max_size=12)


@pytest.mark.slow
@given(st.lists(st.lists(TABLE_CELL, max_size=9), max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_cells_are_read_or_refused(rows):
    head = "| 配置 | parallel | fix_hp | token/p/s | loss | mem | MFU |\n|---|---|---|---|---|---|---|\n"
    checked(head + "\n".join("| " + " | ".join(row) + " |" for row in rows))


def test_hostile_text_stays_text():
    head = "# t\n| 配置 | fix_hp | token/p/s | loss |\n|---|---|---|---|\n"
    published = checked(f"{head}| {HOSTILE} (1x8) | {HOSTILE} | 12 | {HOSTILE} |\n\n- {HOSTILE}\n\n{HOSTILE}\n")
    for language in ("en", "zh"):
        shown = published_markdown(published, language)
        for harm in ("<script", "](javascript", "\x1b", "\u202e", "![", "`c`"):
            assert harm not in shown.replace("\\]", "").replace("\\[", "").replace("\\`", "")
    table = CsvReporter().render(list(published_sheets(published, Path("p.json"), ())), "en")
    assert "\x1b" not in table
    assert ",=1" not in table


def test_a_cell_of_an_edited_document_cannot_leave_its_cell():
    from llmperf_published.reporting.markdown import cell

    for raw in ("a | b", "a \\\\| b", "a\n# b", "<b>", "[x](y)", "`", "a\r\nb", "&lt;"):
        shown = cell(raw)
        assert "\n" not in shown
        assert "<" not in shown
        assert "|" not in shown.replace("\\|", "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"a\0b", "zero byte"),
        (b"x" * (MAX_LINE + 1), "longer than"),
        (b"\n" * (MAX_LINES + 1), "more than 20000 lines"),
        (b"x" * (2 * 2**20 + 1), "larger than"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(data, message):
    with pytest.raises(UserError, match=message):
        import_document(data, "README.md", KNOWN)


LONG = [
    "|" * 9900, "*" * 9900, "[" * 9900, "`" * 9900, "(" * 9900, "GBS=1=" * 1600, "1" * 9900, "1,111" * 1900,
    "默认" * 4900, "a=" * 4900, "TP1" * 3000, "- " * 4900, "config_" * 1400, "a " * 4900, "1*" * 4900, "**a" * 3300,
    "数据集为" * 2400, "![](" * 2400, "1+" * 4900, "A1-" * 3300, "zero" * 2400, "x" * 9900, "，" * 9900, "ﷺ" * 500,
]  # fmt: skip


@pytest.mark.parametrize("line", LONG, ids=[item[:8] for item in LONG])
def test_long_lines_take_no_long_time(line):
    """Nothing grows with the square of a line; most take some hundredths of a second."""
    from time import process_time

    began = process_time()
    head = "| 配置 | parallel | fix_hp | token/p/s | mem | precision |\n|---|---|---|---|---|---|\n"
    cell = line.replace("|", "/")
    rows = "\n".join(f"| {'x | ' * column}{cell} |" for column in range(6))
    assert checked(f"* 输入批尺寸\n- {line}\n\n{head}{rows}\n\n{line}\n> {line}\n# {line}") is not None
    assert process_time() - began < 5

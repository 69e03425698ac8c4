"""Printed cells and what they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf_published.reading.cells import memory
from llmperf_published.reading.markdown import blocks, plain, split_cells
from llmperf_published.reading.numbers import broken_link, computed, figure, product
from llmperf_published.reading.row_settings import default_of
from llmperf_published.reading.vocabulary import column_meaning, heading_kind, meaning


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        ("2868", 2868, "2868"),
        ("2,868.5 token/p/s", 2868.5, "2868.5"),
        ("２，８６８", 2868, "2868"),
        ("43.0%", 0.43, "43.0"),
        ("４３．０％", 0.43, "43.0"),
        ("38.6 %", 0.386, "38.6"),
        ("≈2868", 2868, "2868"),
        ("约43%", 0.43, "43"),
        ("16.67 * 2048 / 8 = 4267 tokens/s", 4267, "4267"),
        ("16.67×2048÷8＝4267", 4267, "4267"),
        ("16.67*2048/8", 4267.52, None),
        ("1e3", 1000, "1e3"),
        ("46.7k tokens/s", 46700, "46.7"),
        ("9.9k", 9900, "9.9"),
        ("0.2868万", 2868, "0.2868"),
        ("1.2 million tokens/s", 1.2e6, "1.2"),
        ("98.6% (bf16)", 0.986, "98.6"),
        ("59.1%¹", 0.591, "59.1"),
        ("2868 (tokens/s)", 2868, "2868"),
        ("11.36 seq/s * 2048 / 8 = 2908", 2908, "2908"),
    ],
)
def test_figures(text, value, printed):
    result = figure(text)
    assert (result.value, result.printed, result.text) == (value, printed, text)


@pytest.mark.parametrize(
    "text",
    ["nan", "inf", "fast", "1.2.3", "12 34", "1e999", "9" * 500, "2868 = fast", "1/0 2", "=5=", "1480–1460", ">59%"],
)
def test_cells_that_are_no_figure_are_refused(text):
    assert figure(text) is None


def test_a_column_may_count_in_thousands():
    result = figure("2.9", "throughput (k tokens/s)")
    assert (result.value, result.printed, result.admits(2868)) == (2900, "2.9", True)


@pytest.mark.parametrize(
    ("chain", "expected", "broken"),
    [
        ("2048 * 11.36 / 8", ((2048, 11.36), 8), None),
        ("(11.36*2048)/8", ((11.36, 2048), 8), None),
        ("11.36 seq/s * 2048 / 8", ((11.36, 2048), 8), None),
        ("11.36*2048=23265/8", ((11.36, 2048), 8), None),
        ("2/(3/4)", None, None),
        ("1.36*2048=23265/8", ((1.36, 2048), 8), ("1.36*2048", "23265/8")),
    ],
)
def test_chains_of_equations(chain, expected, broken):
    assert (product(chain), broken_link(chain)) == (expected, broken)


def test_an_expression_is_kept_and_computed():
    result = figure("16.67 * 2048 / 8 = 4267 tokens/s")
    assert (result.expression, result.computed, result.unit) == ("16.67 * 2048 / 8", 4267.52, "tokens/s")


@pytest.mark.parametrize(
    ("text", "value", "fits"),
    [
        ("38.6%", 0.38607, True), ("38.6%", 0.38649, True), ("38.6%", 0.3857, True), ("38.6%", 0.3869, True),
        ("38.6%", 0.3872, False), ("38.6%", 0.3853, False), ("4267", 4267.52, True), ("4267", 4266.6, True),
        ("4267", 4268.1, False), ("2744", 2744.32, True), ("1e3", 1400, True), ("-2.5", -2.54, True),
        ("-2.5", -2.61, False),
    ],
)  # fmt: skip
def test_a_printed_figure_admits_what_rounds_or_is_cut_off_to_it(text, value, fits):
    assert figure(text).admits(value) is fits


@given(st.floats(0, 1e9), st.integers(0, 4), st.booleans())
def test_every_printed_figure_admits_the_value_it_was_printed_from(value, digits, cut):
    factor = 10**digits
    shown = f"{int(value * factor) / factor:.{digits}f}" if cut else f"{value:.{digits}f}"
    assert figure(shown).admits(value)
    assert figure(f"{shown} tokens/s").value == float(shown)


NUMBERS = st.integers(1, 10**6) | st.integers(1, 10**6).map(lambda value: value / 100)


@given(st.lists(st.tuples(st.sampled_from("+-*/"), NUMBERS), min_size=1, max_size=8), NUMBERS)
def test_expressions_are_computed_as_python_does(terms, first):
    text = f"{first}" + "".join(f" {sign} {value}" for sign, value in terms)
    assert computed(text) == pytest.approx(eval(text))


@pytest.mark.parametrize("text", ["1/0", "2**9", "import os", "(" * 190, "1+", "a*2", "1e9*" * 49 + "1", "()", ""])
def test_hostile_expressions_have_no_value(text):
    assert computed(text) is None or computed(text) < float("inf")


@pytest.mark.parametrize(
    ("text", "used", "total", "unit"),
    [
        ("32/40", [(32, None)], 40, "GiB"),
        ("37.3/40", [(37.3, None)], 40, "GiB"),
        ("70.09 * 8 GB", [(70.09, 8)], None, "GB"),
        ("46.80*2 + 38.93*2 + 31.74*2 + 26.92*2 GB", [(46.8, 2), (38.93, 2), (31.74, 2), (26.92, 2)], None, "GB"),
        ("32GB/40GB", [(32, None)], 40, "GB"),
        ("３２／４０", [(32, None)], 40, "GiB"),
        ("61.5GiB", [(61.5, None)], None, "GiB"),
        ("32768/40960 MiB", [(32768, None)], 40960, "MiB"),
    ],
)
def test_memory(text, used, total, unit):
    result = memory(text, "GiB")
    assert [(item.each.value, item.devices) for item in result.used] == used
    assert (result.total.value if result.total else None) == total
    assert result.unit == unit


@pytest.mark.parametrize(
    "text", ["lots", "32/40960 MiB/40 GB", "32 GB/40960 MiB", "32/40/50", "32/", "-3/40", "32+/40", "1*2*3"]
)
def test_cells_that_are_no_memory_are_refused(text):
    assert memory(text, None) is None


def test_headings_of_many_signs_end():
    """A pattern that backtracks takes ten minutes for these, for which a linear one takes milliseconds."""
    result = blocks(["# " + "#" * 9900 + "x"] * 2000 + ["## Performance ##"])
    assert (len(result), result[-1].text) == (2001, "Performance")


def test_defaults_of_sentences():
    assert default_of("简写为GAS，为ds_config.json中所写，在本case中默认为8，精度对齐实验默认为64") == 8
    assert default_of("本case单卡运行因此为2.") == 2
    assert default_of("LBS for short, 1 by default") == 1
    assert default_of("the default is 4,096") == 4096
    assert default_of("64 = LBS x GAS x data parallel") == 64
    assert default_of("见脚本 config_A100x1x8.py") is None


def test_words_mean_the_same_in_both_languages():
    pairs = {
        "机器型号": "Machine", "加速卡驱动版本": "driver version", "是否精度对齐": "aligned", "数据集": "Dataset",
        "多机网络类型、带宽": "Interconnect", "**吞吐量**": "throughput", "指标名称": "item", "配置": "configuration",
        "local_batchsize(micro_batchsize)": "micro batch (LBS)", "OS kernel版本": "kernel",
    }  # fmt: skip
    for chinese, english in pairs.items():
        assert meaning(chinese) == meaning(english) is not None, chinese
    assert heading_kind("H800软件环境") == heading_kind("Software environment") == "software"
    assert [column_meaning(item) for item in ("tokens/p/s", "mem（actual/total）", "acc(MMLU)", "power")] == [
        "throughput", "memory", "evaluation", None]  # fmt: skip


CELL = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="|\\`") | st.just(" "), max_size=12)


@pytest.mark.slow
@given(st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=4))
def test_tables_have_the_cells_that_a_markdown_library_finds(rows):
    """On well-formed tables; on others this reader keeps what such a library drops."""
    markdown_it = pytest.importorskip("markdown_it")
    lines = ["| head | er |", "| --- | --- |", *(f"| x{' | y'.join(row)} |" for row in rows)]
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse("\n".join(lines))
    assert tokens[0].type == "table_open"
    inline = [token.content.strip() for token in tokens if token.type == "inline"]
    (result,) = blocks(lines)
    assert [cell for _, cells in result.rows for cell in cells] == inline


def test_cells_of_untidy_rows():
    assert split_cells("| a | b \\| c |  |") == ("a", "b \\| c", "")
    assert split_cells("a|b") == ("a", "b")
    assert split_cells("||") == ("",)
    assert plain("**token/p/s,见“性能指标”**") == "token/p/s,见“性能指标”"
    assert plain("46.80\\*2 + 38.93\\*2 GB") == "46.80*2 + 38.93*2 GB"
    assert plain("70.09 * 8 GB") == "70.09 * 8 GB"

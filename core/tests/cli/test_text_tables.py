"""Tables of many runs: what they show first, and that they fit the terminal."""

import json
from pathlib import Path

import pytest
import wcwidth
from llmperf.files import json_files
from llmperf.reporting import Column
from llmperf.reporting.text_table import fitted, laid_out, wrapped_cell
from llmperf.types import Result

PUBLISHED = str(Path(__file__).parents[3] / "extensions/published/src/llmperf_published/data")


def column(text, name):
    """The words of one column, found by its header."""
    header, _, *rows = text.splitlines()
    start = header.index(name)
    return [row[start:].split("  ")[0].strip() for row in rows if row.strip()]


def test_rows_go_by_model_large_ones_first_then_contract_then_speed(runs_of_two_models, ran):
    models = [line.split()[0] for line in ran(0, "report", runs_of_two_models).out.splitlines()[2:]]
    assert models == sorted(models)
    assert models[0] == "llama2_7b"
    out = ran(0, "report", runs_of_two_models).out
    assert column(out, "run") == ["run-2", "run-1", "run-3", "run-0"]
    assert column(out, "case")[-1] == "default (variant)"


def test_long_lines_go_on_below_the_beginning_of_their_value():
    text = "peak    a value of many words that go on\nLP209 warning some words\nshort  x"
    assert fitted(text, 24).split("\n") == [
        "peak    a value of many",
        "        words that go on",
        "LP209 warning some words",
        "short  x",
    ]
    assert fitted("  note: one two three", 14).split("\n") == ["  note: one", "    two three"]
    assert fitted("\x1b[33mwarning\x1b[0m: a b", 12) == "\x1b[33mwarning\x1b[0m: a b"
    assert fitted(text, None) == text


@pytest.mark.parametrize("columns", [80, *(pytest.param(wide, marks=pytest.mark.slow) for wide in (120, 200))])
@pytest.mark.parametrize(
    "words",
    [["report"], ["report", PUBLISHED], ["summary"], ["summary", PUBLISHED], ["summary", "--baseline", PUBLISHED]],
)
def test_a_table_fits_the_terminal(runs_of_two_models, columns, words, on_a_terminal):
    lines = on_a_terminal(*words, ".", cwd=runs_of_two_models, columns=columns, NO_COLOR="1").splitlines()
    assert max(map(wcwidth.wcswidth, lines)) <= columns
    assert lines[0].split()[0] == ("model" if words[0] == "report" else "device")
    assert any("llama2_7b" in line for line in lines)
    if words[0] == "summary":
        assert any("imported: agrees" in line for line in lines) == (words[1:] == [PUBLISHED])  # however narrow


@pytest.mark.slow
def test_columns_that_are_left_out_are_named_and_wide_shows_them(runs_of_two_models, on_a_terminal):
    narrow = on_a_terminal("report", ".", cwd=runs_of_two_models, columns=80, NO_COLOR="1")
    told = " ".join(narrow[narrow.index("left out to fit the terminal: ") :].split())
    assert "run" in told
    assert "(--wide, --format csv) Nobody has rerun" in told
    wide = on_a_terminal("report", ".", "--wide", cwd=runs_of_two_models, columns=80, NO_COLOR="1")
    assert "left out" not in wide
    assert "run-0" in wide
    assert "未显示：" in on_a_terminal("report", ".", "--lang", "zh", cwd=runs_of_two_models, columns=80, NO_COLOR="1")


def test_a_pipe_gets_one_line_a_run(runs_of_two_models, ran, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert len(ran(0, "report", runs_of_two_models).out.splitlines()) == 2 + 4


def test_long_names_break_at_their_joints():
    assert wrapped_cell("llama2_7b_pretrain_megatron", 14) == ["llama2_7b_", "pretrain_", "megatron"]
    assert wrapped_cell("昆仑芯AI加速卡", 6) == ["昆仑芯", "AI加速", "卡"]
    assert wrapped_cell("", 4) == [""]


def test_columns_that_say_nothing_go_first():
    columns = [Column(title=name, importance=place) for place, name in enumerate(["a", "empty", "b"], start=1)]
    table = laid_out(columns, [["1" * 6, "-", "2" * 6]], 15)
    assert table.left_out == ("empty",)


def measured(results):
    """In place of `measure`: these results, each of which is shown when its run has ended."""

    def measure(planned, out, repeat, warn, show, *_):
        for folder, result in results:
            show(folder, result)
            yield folder, result

    return measure


def test_repeats_end_with_one_table_and_their_spread(tmp_path, example, ran, monkeypatch):
    finding = {"code": "LP302", "severity": "error", "path": "/mfu/0/value", "message": "expected less"}
    results = []
    for number, figure in enumerate((100.0, 104.0, 102.0)):
        document = json.loads(json.dumps(example)) | {"run_id": f"run-{number}", "findings": [finding] * (number == 2)}
        document["metrics"]["tokens_per_second_per_device"] = figure
        results.append((Path(f"runs/run-{number}"), json_files.convert(document, Result, "result")))
    monkeypatch.setattr("llmperf.running.measure.measure", measured(results))
    out, err = ran(1, "run", "--repeat", "3", "--out", tmp_path)
    header, _, *rows, _gap, told, _, spread = out.splitlines()
    assert header.split()[:2] == ["run", "folder"]
    assert [row.split()[:2] for row in rows] == [
        ["runs/run-0", "100.0"],
        ["runs/run-1", "104.0"],
        ["runs/run-2", "102.0"],
    ]
    assert told == "run-2: LP302 error /mfu/0/value: expected less"
    assert spread == "3 runs: token/p/s median 102.0, 100.0 to 104.0, spread 3.9 % of the median"
    assert "run 2 of 3: 104.0 token/p/s" in err
    assert "peak" not in out


def test_repeats_name_why_a_run_has_no_mfu(tmp_path, example, ran, monkeypatch):
    documents = [example | {"run_id": "busy", "peak_problem": "the host was busy"}, example | {"run_id": "quiet"}]
    results = [(Path("runs"), json_files.convert(document, Result, "result")) for document in documents]
    monkeypatch.setattr("llmperf.running.measure.measure", measured(results))
    out, err = ran(0, "run", "--repeat", "2", "--out", tmp_path)
    assert "\nbusy: no MFU: the host was busy\n" in out
    assert "quiet: no MFU" not in out
    assert "run 1 of 2: 800.0 token/p/s; no MFU: the host was busy\nrun 2 of 2: 800.0 token/p/s\n" in err


def test_long_cells_are_cut_after_some_lines_and_that_is_said():
    columns = [Column(title="a", importance=1, wraps=8), Column(title="b", importance=2)]
    table = laid_out(columns, [["word " * 20, "x"]], 12)
    assert table.cut
    assert [line.split("  ")[0].strip() for line in table.text.splitlines()[2:]] == ["word word"] * 3 + ["word w..."]
    assert not laid_out(columns, [["word " * 20, "x"]], None).cut

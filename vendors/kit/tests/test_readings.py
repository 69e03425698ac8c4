"""Cells of management tools become figures, or the reason why not."""

import subprocess
import sys
import time

import pytest
from llmperf_vendorkit import Misfit, Reading, Row, read_rows, tool_output


@pytest.mark.parametrize("cell", ["N/A", "[N/A]", "-", "", None, "Not Supported", "[Not Supported]", {"value": "N/A"}])
def test_a_cell_that_shows_nothing_is_unknown(cell):
    reading = Reading.from_cells(
        {"index": "0", "power_watts": cell, "memory_used_mib": cell, "model": cell, "bus": cell}
    )
    assert (reading.power_watts, reading.memory_used_bytes, reading.model, reading.details) == (None, None, None, {})


@pytest.mark.parametrize(
    ("name", "cell", "field", "value"),
    [
        ("power_watts", "250.5 W", "power_watts", 250.5),
        ("power_watts", {"value": 142, "unit": "W"}, "power_watts", 142),
        ("power_milliwatts", "86000", "power_watts", 86),
        ("memory_used_mib", "20480MiB", "memory_used_bytes", 20480 * 2**20),
        ("memory_total_gib", 64, "memory_total_bytes", 2**36),
        ("memory_total_bytes", "1e9", "memory_total_bytes", 10**9),
        ("temperature_celsius", "-3.5 C", "temperature_celsius", -3.5),
        ("utilisation_percent", "87 %", "utilisation_percent", 87),
        ("energy_millijoules", 1500, "energy_joules", 1.5),
    ],
)
def test_a_figure_has_the_unit_of_its_name(name, cell, field, value):
    assert getattr(Reading.from_cells({"index": 0, name: cell}), field) == value


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"power_watts": "250 mW"}, "power_watts is 250 mW, expected 0 to 5000 W"),
        ({"power_watts": "a lot"}, "power_watts is a lot, expected 0 to 5000"),
        ({"power_watts": True}, "power_watts is True"),
        ({"power_watts": [1]}, "power_watts is a list, expected 0 to 5000"),
        ({"power_watts": {"value": {}}}, "power_watts is a dict"),
        ({"index": None}, "index is NoneType, expected a whole number"),
        ({"utilisation_percent": "130"}, "utilisation_percent is 130, expected 0 to 100"),
        ({"memory_used_mib": 3, "memory_total_mib": 2}, "memory in use is 3 of 2 MiB"),
        ({"memory_total_mib": 0}, "memory in use is 0 of 0 MiB"),
        ({"index": "first"}, "index is first, expected a whole number"),
        ({"index": 1e300}, "index is 1e"),
    ],
)
def test_a_cell_that_cannot_be_true_is_a_misfit(cells, message):
    with pytest.raises(Misfit, match=message):
        Reading.from_cells({"index": 0, **cells})


def test_without_strictness_a_figure_that_cannot_be_true_is_unknown():
    reading = Reading.from_cells({"index": 0, "power_watts": 65535, "temperature_celsius": 61}, strict=False)
    assert (reading.power_watts, reading.temperature_celsius) == (None, 61)
    reading = Reading.from_cells({"index": 0, "clock_megahertz": "1410 MHz"})
    assert reading.sample().clock_hertz == 1.41e9
    assert Reading.from_cells({"index": 0, "clock_megahertz": "N/A"}).sample().clock_hertz is None


def test_texts_are_printable_and_short():
    reading = Reading.from_cells({"index": 0, "model": '"A1\x1b[31m"', "uuid": "x" * 999, "bus": 7})
    assert (reading.model, len(reading.uuid or ""), reading.details) == ("A1?[31m", 80, {"bus": "7"})


def test_bad_rows_are_quoted_and_the_others_keep_their_positions():
    rows = [Row({"model": "A"}, "A"), Row({}, "noise", "1 cell"), Row({"model": "B", "driver": "2"}, "B")]
    inventory = read_rows([*rows, *[Row({}, "noise", "1 cell")] * 20], "acme-smi")
    assert [(reading.index, reading.model) for reading in inventory.readings] == [(0, "A"), (2, "B")]
    assert inventory.driver == "2"
    assert inventory.problems[0] == "acme-smi: a row does not fit and is left out: 1 cell in 'noise'"
    assert inventory.problems[8:] == ("13 more rows of acme-smi do not fit",)


def script(code):
    return [sys.executable, "-c", code]


def test_output_is_text_that_a_terminal_can_bear():
    printed = tool_output(script(r"import sys; sys.stdout.buffer.write(b'a\tb\r\n\x1b[31mred\xff\n')"))
    assert printed == "a\tb\n?[31mred\ufffd\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import time; print('x', flush=True); time.sleep(600)", "gave no answer in 0.3 s"),
        ("import os, time; os.close(1); os.close(2); time.sleep(600)", "gave no answer in 0.3 s"),
        ("while True: print('x' * 1000)", "printed more than the 5000 bytes"),
        ("import sys; print(); print('no driver', file=sys.stderr); sys.exit(3)", "no driver"),
        ("import sys; print('told here'); sys.exit(3)", "told here"),
        ("import sys; sys.exit(3)", "exit code 3"),
    ],
)
def test_a_tool_that_gives_no_answer_is_one_line(code, message):
    began = time.monotonic()
    with pytest.raises(OSError, match=message) as caught:
        tool_output(script(code), seconds=0.3 if "0.3 s" in message else 100, max_bytes=5000)
    assert time.monotonic() - began < 250
    assert len(str(caught.value).splitlines()) == 1


def test_a_tool_that_is_not_there_or_no_program(tmp_path):
    with pytest.raises(OSError, match=r"^no-such-tool is not installed$"):
        tool_output(["no-such-tool"])
    (tmp_path / "text").write_text("plain")
    with pytest.raises(OSError, match="text cannot be run: Permission denied"):
        tool_output([str(tmp_path / "text")])


def test_what_a_tool_started_is_ended_with_it(tmp_path):
    mark = tmp_path / "mark"
    code = (
        "import subprocess; child = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL)\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid))\nwhile True: print('x' * 1000)"
    )
    with pytest.raises(OSError, match="printed more"):
        tool_output(script(code), seconds=100, max_bytes=5000)
    child, deadline = int(mark.read_text()), time.monotonic() + 60
    while runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(pid):
    """Whether a process has not ended."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(listed.strip()) and not listed.startswith("Z")

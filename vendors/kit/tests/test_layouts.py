"""Columns without headings are read by the layout that the rows fit, or not at all."""

import pytest
from llmperf.errors import UserError
from llmperf_vendorkit import PeakTable, read_layouts

LAYOUTS = """
[[layout]]
name = "index first"
drivers = [1]
fields = [3, 4]
columns = { index = 1, bus = 2, memory_total_gib = 3 }
source = "a recording"

[[layout]]
name = "bus first"
drivers = [1, 2]
fields = [3, 3]
columns = { bus = 1, index = 2, memory_total_gib = 3 }
source = "a recording"

[limits]
memory_total_gib = [8, 128]

[patterns]
bus = "[a-z][0-9]+"
"""
PEAKS = """
[[device]]
model = "A1"
memory_gib = 64
dense_tflops = {}
source = "a page"
date = "2026"
"""


@pytest.fixture
def read(tmp_path):
    """Reads lines of a driver."""
    (tmp_path / "layouts.toml").write_text(LAYOUTS)
    (tmp_path / "peaks.toml").write_text(PEAKS)
    layouts, table = read_layouts(tmp_path / "layouts.toml"), PeakTable.read(tmp_path / "peaks.toml", vendor="acme")
    return lambda *lines, major=1: layouts.read_rows(lines, major, "smi -m", models={}, table=table)


@pytest.mark.parametrize("line", ["3 c0 64", "c0 3 64"])
def test_the_layout_that_fits_is_used(read, line):
    (reading,) = read(line).readings
    assert (reading.index, reading.details, reading.memory_total_bytes) == (3, {"bus": "c0"}, 64 * 2**30)


@pytest.mark.parametrize(
    ("lines", "major", "message"),
    [
        (["3 c0 64"], 7, r"the columns of `smi -m` are known for drivers 1, 2, not for 7: '3 c0 64'"),
        (["3 c0 64"], 2, r"no known layout of `smi -m` fits '3 c0 64': as 'bus first': .*column 1: bus is 3"),
        (["3 c0 4"], 1, r"as 'index first': .*column 3: memory_total_gib is 4, expected 8 to 128"),
        ([], 1, r"fits an empty output: as 'index first': no rows"),
    ],
)
def test_no_layout_that_fits_is_one_line(read, lines, major, message):
    with pytest.raises(OSError, match=message):
        read(*lines, major=major)


def test_two_layouts_with_different_readings_are_not_chosen_between(read):
    with pytest.raises(OSError, match="fit several layouts with different readings"):
        read("3 c0 64", "c1 4 64")


def test_a_file_of_another_shape_says_where(tmp_path):
    (tmp_path / "layouts.toml").write_text(LAYOUTS.replace("fields = [3, 4]", 'fields = "3"'))
    with pytest.raises(UserError, match=r"layouts\.toml: .*fields"):
        read_layouts(tmp_path / "layouts.toml")

"""Cells of management tools become figures, or the reason why not."""

import pytest
from llmperf_vendorkit import Misfit, Reading, Row, read_rows


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

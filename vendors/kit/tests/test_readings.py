"""Cells of management tools become figures, or the reason why not."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from llmperf.errors import UserError
from llmperf_vendorkit import (
    AcceleratorVendor,
    CommandReader,
    CsvCommand,
    JsonCommand,
    Misfit,
    PeakTable,
    Reading,
    Row,
    TableCommand,
    read_layouts,
    read_rows,
    tool_output,
)


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


@pytest.fixture
def play(tmp_path):
    """Makes a command that prints a text; the answer is its argv."""

    def make(name, printed):
        (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
        (tmp_path / name).chmod(0o755)
        return (str(tmp_path / name),)

    return make


def test_rows_of_two_commands_are_joined_by_index(play):
    devices = CsvCommand(argv=play("list", "1, A1\n0, A1"), columns=("index", "model"))
    power = CsvCommand(argv=play("power", "0 90.5 x\n1 100 x"), columns=("index", "power_watts", ""), separator=None)
    readings = CommandReader(devices, power).inventory().readings
    assert [(reading.index, reading.power_watts) for reading in readings] == [(1, 100), (0, 90.5)]


CHIPS = "| Card | Chip | Name |\n+=====+\n| 0 | 0 | D2 |\n| 0 | 1 | D2 |\n| 1 | 0 | D1 |\n+-----+\nbye"
COLUMNS = {"Card": "card", "Chip": "chip", "Name": "model"}


def test_figures_of_a_card_are_of_its_chip_only_if_it_has_one(play):
    chips = TableCommand(argv=play("list", CHIPS), columns=COLUMNS)
    power = CsvCommand(argv=play("power", "0, 512, 3.1\n1, 250, 3.1"), columns=("card", "power_watts", "driver"))
    inventory = CommandReader(chips, power).inventory()
    assert [(reading.index, reading.power_watts) for reading in inventory.readings] == [(0, None), (1, None), (2, 250)]
    (problem,) = inventory.problems
    assert "power_watts of a card with several chips is left out, since it is no chip's own: card 0" in problem
    assert inventory.driver == "3.1"


def test_figures_of_a_card_are_left_out_if_a_row_of_its_chips_may_be_missing(play):
    chips = CsvCommand(argv=play("list", "0, 0\nnoise"), columns=("card", "chip"))
    power = CsvCommand(argv=play("power", "0, 512"), columns=("card", "power_watts"))
    assert [reading.power_watts for reading in CommandReader(chips, power).inventory().readings] == [None]


def test_a_row_that_does_not_fit_takes_no_devices_place_in_readings(play):
    devices = CsvCommand(argv=play("list", "noise\n0, 7"), columns=("index", "memory_used_gib"))
    reader = CommandReader(devices, readings=(devices,))
    shown = [reader.inventory().readings, reader.readings().readings]
    assert [[(reading.index, reading.memory_used_bytes) for reading in readings] for readings in shown] == [
        [(0, 7 * 2**30)]
    ] * 2


def test_cards_with_chips_in_json(play):
    document = """WARNING: not root
    {"cards": [{"id": 0, "watts": 512, "bus": "c0", "chips": [{"id": 0, "t": 61}, {"id": 1, "t": "N/A"}]},
               {"id": 1, "watts": 250, "bus": "c1", "chips": [{"id": 0, "t": 58}]}, {"host": true}],
     "v": {"drv": "2"}}"""
    command = JsonCommand(
        argv=play("list", document),
        devices="cards",
        chips="chips",
        fields={"chip": "id", "temperature_celsius": "t"},
        card_fields={"card": "id", "power_watts": "watts", "bus": "bus"},
        shared={"driver": "v.drv"},
        skip=("host",),
    )
    inventory = CommandReader(command).inventory()
    shown = [(reading.index, reading.power_watts, reading.temperature_celsius) for reading in inventory.readings]
    assert shown == [(0, None, 61), (1, None, None), (2, 250, 58)]
    assert inventory.readings[1].details == {"card": "0", "chip": "1", "bus": "c0"}
    assert inventory.driver == "2"


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ('"chips": []', "expected a list of chips under 'chips', found [] in "),
        ('"chips": "N/A"', "expected a list of chips under 'chips', found \"N/A\" in "),
        ('"chip": [{"id": 0}]', "expected a list of chips under 'chips', found the keys 'id', 'watts', 'chip' in "),
        ('"chips": ["0"]', "expected an object for each chip in "),
    ],
)
def test_a_card_whose_chips_are_missing_is_no_device(play, card, message):
    document = f'[{{"id": 0, "watts": 512, {card}}}, {{"id": 1, "watts": 250, "chips": [{{"id": 0}}]}}]'
    command = JsonCommand(
        argv=play("list", document),
        chips="chips",
        fields={"chip": "id"},
        card_fields={"card": "id", "power_watts": "watts"},
    )
    inventory = CommandReader(command).inventory()
    assert [reading.details["card"] for reading in inventory.readings] == ["1"]
    assert message in inventory.problems[0]


def test_a_name_like_that_of_a_figure_is_a_problem_with_the_nearest(play):
    columns = ("index", "memory_total_mb", "power_kilowatts", "power_watts", "serial")
    command = CsvCommand(argv=play("list", "0, 64, 1, 2, x\n1, 64, 1, 2, x"), columns=columns)
    inventory = CommandReader(command).inventory()
    assert len(inventory.readings) == 2
    memory, power = inventory.problems
    assert "'memory_total_mb' is no name of a figure and becomes a detail; did you mean 'memory_total_mib'?" in memory
    assert "did you mean 'power_watts'?" in power


def test_a_device_without_a_row_in_another_command_and_a_row_of_no_device(play):
    devices = CsvCommand(argv=play("list", "0\n1"), columns=("index",))
    power = CsvCommand(argv=play("power", "0, 90\n7, 100\nnoise"), columns=("index", "power_watts"))
    inventory = CommandReader(devices, power).inventory()
    assert [reading.power_watts for reading in inventory.readings] == [90, None]
    assert "it is of no device that is listed in '7, 100'" in inventory.problems[0]
    assert "1 cells where 2 are expected: index, power_watts in 'noise'" in inventory.problems[1]


def test_another_command_that_fails_leaves_its_figures_unknown(play):
    devices = CsvCommand(argv=play("list", "0"), columns=("index",))
    inventory = CommandReader(devices, CsvCommand(argv=("no-such-tool",), columns=("power_watts",))).inventory()
    assert (len(inventory.readings), inventory.problems) == (1, ("no-such-tool is not installed",))
    with pytest.raises(OSError, match="no-such-tool is not installed"):
        CommandReader(CsvCommand(argv=("no-such-tool",), columns=("index",))).inventory()


def test_readings_repeat_only_the_commands_for_readings(play, tmp_path):
    devices = CsvCommand(argv=play("list", "0, 0, A1, 64, 7\n0, 1, A1, 64, 8"),
                         columns=("card", "chip", "model", "memory_total_gib", "memory_used_gib"))  # fmt: skip
    used = CsvCommand(argv=play("used", "0, 1, 9\n0, 0, 10"), columns=("card", "chip", "memory_used_gib"))
    reader = CommandReader(devices, readings=(used,))
    assert [reading.memory_used_bytes for reading in reader.inventory().readings] == [7 * 2**30, 8 * 2**30]
    (tmp_path / "list").unlink()
    assert [(reading.index, reading.memory_used_bytes) for reading in reader.readings().readings] == [
        (0, 10 * 2**30),
        (1, 9 * 2**30),
    ]
    (tmp_path / "used").unlink()
    with pytest.raises(OSError, match="used is not installed"):
        reader.readings()


def test_a_document_or_table_of_another_shape_is_one_line(play):
    with pytest.raises(OSError, match="expected a JSON list or object of devices under 'gpus', found "):
        JsonCommand(argv=play("list", '{"gpus": 3}'), devices="gpus", fields={}).rows()
    with pytest.raises(OSError, match="under 'card', found the keys 'gpus', 'driver'"):
        JsonCommand(argv=play("list", '{"gpus": [], "driver": "2"}'), devices="card", fields={}).rows()
    with pytest.raises(OSError, match="expected JSON, found 'hello"):
        JsonCommand(argv=play("list", "hello"), fields={}).rows()
    with pytest.raises(OSError, match="expected a table with the columns Card, Chip, Name, found 'hello'"):
        TableCommand(argv=play("list", "hello"), columns=COLUMNS).rows()


def test_a_vendor_answers_probe_and_readings(play, tmp_path, monkeypatch):
    peaks = tmp_path / "peaks.toml"
    peaks.write_text(
        '[[device]]\nmodel = "A1"\nprecisions = ["bf16"]\ndense_tflops = {}\nsource = "x"\ndate = "2026"\n'
    )
    acme = AcceleratorVendor(
        name="acme",
        peaks=peaks,
        inventory=CommandReader(
            CsvCommand(argv=play("list", "0, A1, 90\n1, A1, 91\n2, B, N/A"), columns=("index", "model", "power_watts"))
        ).inventory,
        variable="ACME_VISIBLE_DEVICES",
        runtimes=("torch",),
        collective_backend="accl",
        unknown_model="unknown Acme device",
    )
    monkeypatch.setenv("ACME_VISIBLE_DEVICES", "1,0,2")
    probe = acme.probe()
    assert ([device.index for device in probe.devices], probe.offers.precisions) == ([1, 0], ("bf16",))
    assert "devices left out: 2 (B)" in probe.problems[0]
    assert [sample.power_watts for sample in acme.samples((1, 2, 5))] == [91, None, None]
    (tmp_path / "list").unlink()
    assert (acme.probe().devices, acme.probe().problems) == ((), ("list is not installed",))
    assert [sample.power_watts for sample in acme.samples((1,))] == [None]


def test_a_path_that_no_device_has_is_told(play):
    document = '{"gpus": [{"i": 0, "mem": {"total_mb": 65536}, "t": null}]}'
    fields = {"index": "i", "memory_total_mib": "mem.total_mb", "power_watts": "mem.power", "temperature_celsius": "t"}
    inventory = CommandReader(JsonCommand(argv=play("smi", document), devices="gpus", fields=fields)).inventory()
    (problem,) = inventory.problems
    assert problem.endswith("smi: no device has 'mem.power', the path of 'power_watts'")


def test_a_plan_needs_the_module_that_adds_the_devices_to_torch(play, tmp_path):
    (tmp_path / "peaks.toml").write_text("")
    devices = CsvCommand(argv=play("list", "0, A1"), columns=("index", "model"))
    vendor = AcceleratorVendor(
        name="acme",
        peaks=tmp_path / "peaks.toml",
        inventory=CommandReader(devices).inventory,
        variable="ACME_VISIBLE_DEVICES",
        runtimes=("torch",),
        collective_backend="accl",
        unknown_model="unknown",
        torch_extension="torch_no_such",
    )
    reason = "torch_no_such, through which torch uses the devices, is not installed"
    assert vendor.probe().offers.runtime_problems == {"torch": reason}


LAYOUTS = Path(__file__).with_name("acme_layouts.toml").read_text()
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

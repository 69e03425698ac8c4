"""Machines that are not here: an `xpu_smi` on PATH that prints what a test gives it."""

import os
from dataclasses import dataclass

import pytest
from llmperf_kunlunxin import cards

HEAD = "| DevID |   PCI Addr   | Model |        SN        |    INODE   | State | UseRate |    L3     |     Memory     |"


@dataclass(frozen=True, kw_only=True)
class Card:
    """One card as the driver's tool shows it."""

    model: str = "R300"
    total: int = 32768
    used: int = 29696
    watts: str = "150"
    celsius: str = "61"
    percent: str = "99"

    def table(self, index):
        """A row for people, of driver 4."""
        memory = f"{self.used} / {self.total} MB"
        where = f"0000:{index + 1:02x}:00.0 | {self.model}  | 02K00Y6217V0000{index:x} | /dev/xpu{index}  "
        return f"|     {index} | {where}|     N |    99 % | 0 / 63 MB | {memory} |"

    def row(self, index, old=False):
        """A row for machines, of driver 4; with `old` as a tool prints it that shows no serial number."""
        serial = "" if old else f" 02K00Y6217V0000{index:x}"
        clocks = " ".join(["1450"] * 6)
        memory = f"0 63 {self.used} {self.total} {self.percent}"
        start = f"0000:{index + 1:02x}:00.0 {index} {index}{serial} {self.celsius} 0 0 0 {self.watts}"
        return f"{start} {clocks} {memory} 0001.0002.0022"


class Machines:
    """Makes this process, and those it starts, see the cards that a test names."""

    def __init__(self, folder, monkeypatch):
        self._folder = folder
        self._patch = monkeypatch
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setattr(cards, "_tool", [])
        for name in list(os.environ):
            if name.startswith(("XPU_", "BKCL_", "XDNN_", "XMLIR_", "XBLAS_")):
                monkeypatch.delenv(name)

    def play(self, *shown, driver="4.23", old=False):
        """`xpu_smi` of a driver, with these cards."""
        table = [f"Runtime Version: {driver}", f"Driver Version: {driver}", "  DEVICES", "-" * 99, HEAD]
        rows = [card.row(index, old) for index, card in enumerate(shown)]
        self.print([*table, *(card.table(index) for index, card in enumerate(shown))], rows)

    def print(self, about, rows, name="xpu_smi"):
        """A tool that prints these lines, the second ones for `-m`."""
        (self._folder / "about").write_text("\n".join(about) + "\n")
        (self._folder / "rows").write_text("\n".join(rows) + "\n")
        choose = f'case "$1" in -m) cat {self._folder}/rows;; *) cat {self._folder}/about;; esac'
        self.tool(choose, name)

    def tool(self, script, name="xpu_smi"):
        """A tool that does this."""
        path = self._folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def machines(tmp_path, monkeypatch):
    """Machines to play; without one there is no tool."""
    folder = tmp_path / "bin"
    folder.mkdir()
    yield Machines(folder, monkeypatch)
    cards._tool.clear()


@pytest.fixture
def card():
    """What a machine is made of."""
    return Card

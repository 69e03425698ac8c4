"""Acme's management tool and runtime: what llmperf needs to know of them. Edit all of it to match yours."""

from __future__ import annotations

from pathlib import Path

from llmperf_vendorkit import AcceleratorVendor, CommandReader, CsvCommand

DEVICES = CsvCommand(
    argv=("acme-smi", "--format=csv,noheader"),
    columns=(
        "index",
        "model",
        "uuid",
        "driver",
        "memory_total_mib",
        "memory_used_mib",
        "utilisation_percent",
        "power_watts",
        "temperature_celsius",
    ),
    seconds=5.0,
)
"""The command that lists the devices, and the name of each cell in its order.

`TableCommand` reads a table with headings, `JsonCommand` a JSON document. A cell that says `N/A` is unknown; a row that
does not fit is left out and shown.
"""

READER = CommandReader(DEVICES)
"""Reads one command, or several: `CommandReader(DEVICES, POWER, readings=(POWER,))` repeats one of two once a second.

If a card has several chips, each chip is a device: name cells `card` and `chip`.
"""

VENDOR = AcceleratorVendor(
    name="acme",
    peaks=Path(__file__).parent / "data" / "peaks.toml",
    inventory=READER.inventory,
    readings=READER.readings,
    variable="ACME_VISIBLE_DEVICES",
    runtimes=("torch",),
    collective_backend="acme",
    unknown_model="unknown Acme device",
    torch_extension="torch_acme",
)
"""The vendor. `variable` tells your runtime which devices there are; `torch_extension` adds your devices to torch when
it is imported, and registers `collective_backend` with torch.distributed."""

"""What vendor plugins build on. A vendor package for a chip with a command-line tool needs little else.

| Name | Purpose |
|---|---|
| `AcceleratorVendor` | answers probe, catalogue, peaks, readings and worker environment from one description |
| `CsvCommand`, `TableCommand`, `JsonCommand` | a management command and what its cells mean |
| `CommandReader` | joins the output of several commands into one reading per device |
| `Reading`, `Row`, `Inventory`, `Misfit`, `read_rows` | readings from another source, such as a library |
| `read_layouts` | columns of a tool without headings, as data by driver version |
| `tool_output`, `json_output` | run a command with limits on time and size |
| `read_toml` | a data file of the plugin |
| `PeakTable`, `PeakEntry` | `peaks.toml`, the vendor's table of devices |
| `RateTable` | `rates.toml`, what the devices are assumed to achieve, for estimates |
| `visible_devices`, `of_one_model`, `planned_indices`, `visibility_variable` | which devices a run uses |
| `samples_by_index`, `probe_of` | hook answers from devices and samples that a plugin reads itself |
| `AcceleratorDevice` | a rank's device over a runtime's namespace, such as `torch.cuda` |

Nothing heavy is imported: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llmperf.lazy import lazy_names

if TYPE_CHECKING:
    from llmperf.files.user_files import read_toml as read_toml
    from llmperf.vendorkit.accelerator import AcceleratorDevice as AcceleratorDevice
    from llmperf.vendorkit.commands import CommandReader as CommandReader
    from llmperf.vendorkit.commands import CsvCommand as CsvCommand
    from llmperf.vendorkit.commands import JsonCommand as JsonCommand
    from llmperf.vendorkit.commands import TableCommand as TableCommand
    from llmperf.vendorkit.layouts import Layouts as Layouts
    from llmperf.vendorkit.layouts import read_layouts as read_layouts
    from llmperf.vendorkit.peaks import PeakEntry as PeakEntry
    from llmperf.vendorkit.peaks import PeakTable as PeakTable
    from llmperf.vendorkit.rates import RateTable as RateTable
    from llmperf.vendorkit.readings import Inventory as Inventory
    from llmperf.vendorkit.readings import Misfit as Misfit
    from llmperf.vendorkit.readings import Reading as Reading
    from llmperf.vendorkit.readings import Row as Row
    from llmperf.vendorkit.readings import read_rows as read_rows
    from llmperf.vendorkit.tool import json_output as json_output
    from llmperf.vendorkit.tool import tool_output as tool_output
    from llmperf.vendorkit.vendor import AcceleratorVendor as AcceleratorVendor
    from llmperf.vendorkit.vendor import probe_of as probe_of
    from llmperf.vendorkit.vendor import samples_by_index as samples_by_index
    from llmperf.vendorkit.visibility import of_one_model as of_one_model
    from llmperf.vendorkit.visibility import planned_indices as planned_indices
    from llmperf.vendorkit.visibility import visibility_variable as visibility_variable
    from llmperf.vendorkit.visibility import visible_devices as visible_devices

_HOMES = lazy_names(__file__)

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

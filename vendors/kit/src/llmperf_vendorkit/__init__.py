"""Building blocks of vendor plugins. A vendor package for a chip with a command-line tool needs little else.

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

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf import read_toml as read_toml

    from llmperf_vendorkit.accelerator import AcceleratorDevice as AcceleratorDevice
    from llmperf_vendorkit.commands import CommandReader as CommandReader
    from llmperf_vendorkit.commands import CsvCommand as CsvCommand
    from llmperf_vendorkit.commands import JsonCommand as JsonCommand
    from llmperf_vendorkit.commands import TableCommand as TableCommand
    from llmperf_vendorkit.layouts import Layouts as Layouts
    from llmperf_vendorkit.layouts import read_layouts as read_layouts
    from llmperf_vendorkit.readings import Inventory as Inventory
    from llmperf_vendorkit.readings import Misfit as Misfit
    from llmperf_vendorkit.readings import Reading as Reading
    from llmperf_vendorkit.readings import Row as Row
    from llmperf_vendorkit.readings import read_rows as read_rows
    from llmperf_vendorkit.tables import PeakEntry as PeakEntry
    from llmperf_vendorkit.tables import PeakTable as PeakTable
    from llmperf_vendorkit.tables import RateTable as RateTable
    from llmperf_vendorkit.tool import json_output as json_output
    from llmperf_vendorkit.tool import tool_output as tool_output
    from llmperf_vendorkit.vendor import AcceleratorVendor as AcceleratorVendor
    from llmperf_vendorkit.vendor import of_one_model as of_one_model
    from llmperf_vendorkit.vendor import planned_indices as planned_indices
    from llmperf_vendorkit.vendor import probe_of as probe_of
    from llmperf_vendorkit.vendor import samples_by_index as samples_by_index
    from llmperf_vendorkit.vendor import visibility_variable as visibility_variable
    from llmperf_vendorkit.vendor import visible_devices as visible_devices

__all__, __getattr__ = lazily(globals())

"""Kunlunxin XPUs as the driver's tool shows them, and the variables of the vendor's libraries."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf.types import Plan
from llmperf_vendorkit import AcceleratorVendor, Inventory, read_layouts, read_toml, tool_output

DATA = Path(__file__).parent / "data"
NAMES = ("xpu_smi", "xpu-smi")
"""The tool with older and newer drivers. Intel has an `xpu-smi` too, which shows no driver version in these places."""
SECONDS = 10.0
DRIVER = re.compile(r"Driver Version\s*:\s*(?P<version>(?P<major>\d{1,4})(\.\w+){0,5})")
STAND_IN = "llmperf stand-in"
"""Mark that a simulated tool prints beside its driver version."""
VISIBLE = "XPU_VISIBLE_DEVICES"
LIBRARIES = ("BKCL_", "XPU_", "XDNN_", "XMLIR_", "XBLAS_")
"""Prefixes of the variables of collectives, runtime, operators, XPyTorch and matrix products."""
ALWAYS = {"XPU_EVENT_KL3_ENABLE": "1"}
"""Without it XPyTorch's events measure 0 s, according to DeepSpeed's klxpu accelerator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Content of the table that the tool prints."""

    name: str
    """Name of the command."""
    driver: re.Match[str]
    """Its version, and the major version, by which a layout is chosen."""
    models: Mapping[int, str]
    """By device number, where the table has a column for it."""
    stand_in: bool
    """The tool only plays a machine."""


_tool: list[Tool] = []
"""The tool once it has answered; kept between readings."""


def inventory() -> Inventory:
    """The cards by the tool's rows for machines; OSError, one line, where it gives no answer or no row fits."""
    _tool[:] = [_find_tool()]
    return readings()


def readings() -> Inventory:
    """The same without asking again which tool and driver there are."""
    tool = _tool[0] if _tool else _find_tool()
    _tool[:] = [tool]
    lines = [line for line in tool_output([tool.name, "-m"], seconds=SECONDS).splitlines() if line.strip()]
    shown = read_layouts(DATA / "layouts.toml").read_rows(
        lines, int(tool.driver["major"]), "xpu_smi -m", models=tool.models, table=KUNLUNXIN.table()
    )
    version = tool.driver["version"]
    return replace(shown, driver=f"{version} ({STAND_IN})" if tool.stand_in else version, simulated=tool.stand_in)


def _find_tool() -> Tool:
    for name in NAMES:
        try:
            printed = tool_output([name], seconds=SECONDS)
        except FileNotFoundError:
            continue
        driver = DRIVER.search(printed)
        if driver is None:
            with suppress(OSError):  # newer drivers may show it here only; older tools do not know the option
                driver = DRIVER.search(tool_output([name, "-q"], seconds=SECONDS))
        if driver is None:
            raise OSError(f"{name} shows no driver version; is it Kunlunxin's? Intel's xpu-smi has the same name")
        return Tool(name=name, driver=driver, models=_models(printed), stand_in=STAND_IN in printed)
    raise OSError(f"{NAMES[0]} is not installed; it comes with Kunlunxin's driver (XRE), and must be on PATH")


def _models(printed: str) -> dict[int, str]:
    """The column Model of the table whose headings include DevID and Model."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in printed.splitlines()]
    head = next((row for row in rows if "DevID" in row and "Model" in row), None)
    if head is None:
        return {}
    index, model = head.index("DevID"), head.index("Model")
    cards = [row for row in rows[rows.index(head) + 1 :] if len(row) == len(head)]
    return {int(row[index]): row[model] for row in cards if row[index].isdecimal() and row[model]}


def worker_env(plan: Plan) -> dict[str, str]:
    """Variables of the published case, overridden by the user's own, and those for the visible cards."""
    users = {name: value for name, value in os.environ.items() if name.startswith(LIBRARIES) and name != VISIBLE}
    entry = KUNLUNXIN.table().find(plan.probe.devices[0].model) if plan.probe.devices else None
    published: dict[str, str] = {}
    for setting in read_toml(DATA / "environment.toml")["environment"]:
        if entry is not None and entry.model in setting["device"] and plan.spec.case in setting["case"]:
            published |= setting["variables"]
    from llmperf import interface_variables

    interface = interface_variables(plan, "BKCL_SOCKET_IFNAME")
    return {**ALWAYS, **published, **interface, **users, **KUNLUNXIN.worker_env(plan)}


KUNLUNXIN = AcceleratorVendor(
    name="kunlunxin",
    peaks=DATA / "peaks.toml",
    rates=DATA / "rates.toml",
    inventory=inventory,
    readings=readings,
    variable=VISIBLE,
    runtimes=("torch", "paddle"),
    collective_backend="bkcl",
    unknown_model="unknown Kunlunxin XPU",
)

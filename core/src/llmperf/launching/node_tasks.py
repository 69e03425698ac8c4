"""The tasks that the controller can give to a node program, by name: those of the core, and of extensions."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf.errors import UserError
from llmperf.runfolder import filenames

if TYPE_CHECKING:
    from llmperf.launching.node import Program

MAX_LOOK_SECONDS = 10.0
"""Longest time over which the controller may have the load of a node averaged."""


def report(program: Program, arguments: Mapping[str, Any]) -> object:
    """What this node has: versions, plugins, devices, host.

    `vendor` names the only vendor to ask, if it is not None; `addresses` are those of all nodes, by rank.
    """
    from llmperf.planning.node_report import node_report

    return node_report(arguments.get("vendor"), arguments["addresses"][program.node])


def load(program: Program, arguments: Mapping[str, Any]) -> object:
    """What goes on on this node and on its `devices` of a `vendor`, over so many `seconds`.

    `on_cpu`: whether the devices are the cores of the host.
    """
    from llmperf.measuring.sampler import Sampler, device_query
    from llmperf.plugins.loading import load_for

    query = device_query(load_for(str(arguments["vendor"]), None))
    devices = () if query is None else tuple(map(int, arguments["devices"]))
    on_cpu = bool(arguments["on_cpu"])
    sampler = Sampler(Path(os.devnull), query or (lambda _: ()), devices, on_cpu=on_cpu)
    return sampler.look(min(float(arguments["seconds"]), MAX_LOOK_SECONDS))


def stacks(program: Program, arguments: Mapping[str, Any]) -> object:
    """What each rank that runs here writes to its log when it is asked for its stacks, by rank."""
    from llmperf.launching.hang import dump_stacks

    run = program.run_folder
    return {} if run is None else {str(rank): text for rank, text in dump_stacks(run).items()}


def collect(program: Program, arguments: Mapping[str, Any]) -> object:
    """End what a lost connection has left of a run, and send the files in its `folder`.

    `tag` marks the processes of the run, and the folder's name ends with the id of its node program, which may be
    stopped; `sizes` has the bytes of each file that the controller has.
    """
    from llmperf.launching.run_on_node import node_folder, node_tag
    from llmperf.launching.shipping import Shipper
    from llmperf.measuring.processes import sweep

    folder = Path(str(arguments["folder"]))
    if folder.parent != node_folder() or folder.name in (".", ".."):
        raise UserError(f"{folder}: expected a folder in {node_folder()}")
    swept = sweep(node_tag(str(arguments["tag"]), program.node))
    _end_program(folder)
    if folder.is_dir():
        Shipper(folder, program.node, program.send, arguments["sizes"]).ship(final=True)
    program.delete_when_done(folder)
    return {"ended": len(swept), "pid": os.getpid()}


def _end_program(folder: Path) -> None:
    """Kill the node program that made a folder, if it is still there: it may be stopped."""
    with suppress(OSError, ValueError, IndexError):
        pid = int(folder.name.rpartition("-")[2])
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        started = time.time() - float(Path("/proc/uptime").read_text().split()[0]) + ticks / os.sysconf("SC_CLK_TCK")
        made = (folder / filenames.PLAN).stat().st_mtime
        if started <= made + 1 and b"llmperf.launching.node" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def recollect(program: Program, arguments: Mapping[str, Any]) -> object:
    """Send the files that a run has left here, whose controller is gone: `run_id` names it; `sizes` as for `collect`.

    UserError while it goes on here.
    """
    from llmperf.launching.run_on_node import node_folder
    from llmperf.launching.shipping import Shipper
    from llmperf.measuring.processes import left_of_run

    run_id, parent = str(arguments["run_id"]), node_folder()
    if left_of_run(run_id):
        raise UserError("expected a run that has ended, found processes of it")
    folders = [folder for folder in parent.iterdir() if folder.name.startswith(f"{run_id}-{program.node:03d}-")]
    for folder in folders[:1]:  # a node program makes one
        _end_program(folder)
        Shipper(folder, program.node, program.send, arguments["sizes"]).ship(final=True)
        program.delete_when_done(folder)
    return {"folders": len(folders)}


TASKS: dict[str, Callable[[Any, Mapping[str, Any]], object]] = {
    "report": report,
    "load": load,
    "stacks": stacks,
    "collect": collect,
    "recollect": recollect,
}


def answered(program: Program, name: str, arguments: Mapping[str, Any]) -> object:
    """The answer to a task of the core or of an extension; UserError if no installed package has it."""
    if name in TASKS:
        return TASKS[name](program, arguments)
    if name not in program.works:
        from llmperf.plugins.loading import plugins_for

        found = [task for _, task in plugins_for().collect_sound("llmperf_node_tasks", []) if task.name == name]
        if not found:
            raise UserError(f"no package has the task {name!r}; install the packages of the controller here too")
        program.works[name] = found[0].begin(program.node)
    return program.works[name].answer(arguments)

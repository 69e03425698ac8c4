"""The tasks that the controller can give to a node program, by name: its own, and those of extensions."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf import every_answer
from llmperf.errors import UserError
from llmperf.launching import left_of_run, load_here, sweep

from llmperf_remote.reports import node_report
from llmperf_remote.run_on_node import node_folder
from llmperf_remote.shipping import Shipper

if TYPE_CHECKING:
    from llmperf_remote.node import Program


def leftovers(program: Program, arguments: Mapping[str, Any]) -> object:
    """Send the files that run `run_id` has left here, from the `sizes` that the controller has; delete them at its end.

    Processes of the run that have the `tag` are ended first; without a tag they are a UserError.
    """
    run_id, tag, parent = str(arguments["run_id"]), arguments.get("tag"), node_folder()
    if tag is not None:
        sweep(f"{tag}-{program.node}")
    elif left_of_run(run_id):
        raise UserError("expected a run that has ended, found processes of it")
    folders = [folder for folder in parent.iterdir() if folder.name.startswith(f"{run_id}-{program.node:03d}-")]
    for folder in folders[:1]:  # a node program makes one
        _end_program(folder)
        Shipper(folder, program.node, program.send, arguments["sizes"]).ship(final=True)
        program.delete_when_done(folder)
    return {"folders": len(folders)}


def _end_program(folder: Path) -> None:
    """Kill the node program that made a folder, if it is still there: it may be stopped."""
    with suppress(OSError, ValueError, IndexError):
        pid = int(folder.name.rpartition("-")[2])
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        started = time.time() - float(Path("/proc/uptime").read_text().split()[0]) + ticks / os.sysconf("SC_CLK_TCK")
        made = (folder / "plan.json").stat().st_mtime
        if started <= made + 1 and b"llmperf_remote.node" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def answered(program: Program, name: str, arguments: Mapping[str, Any]) -> object:
    """The answer to a task by name; UserError if no installed package has it."""
    if name == "report":  # `addresses` are those of all nodes, by rank
        return node_report(arguments.get("vendor"), arguments["addresses"][program.node])
    if name == "load":
        devices, on_cpu = tuple(map(int, arguments["devices"])), bool(arguments["on_cpu"])
        return load_here(str(arguments["vendor"]), devices, on_cpu, float(arguments["seconds"]))
    if name == "stacks":
        return {str(rank): text for rank, text in program.stacks().items()}
    if name == "leftovers":
        return leftovers(program, arguments)
    if name not in program.works:
        found = [task for task in every_answer("llmperf_node_tasks", "extension") if task.name == name]
        if not found:
            raise UserError(f"no package has the task {name!r}; install the packages of the controller here too")
        program.works[name] = found[0].begin(program.node)
    return program.works[name].answer(arguments)

"""An extension with a launcher, an observer, a logger, a rule, a reporter and a count of FLOPs."""

import json
from dataclasses import replace
from pathlib import Path

from llmperf import hookimpl
from llmperf.reporting import shown
from llmperf.types import Logger, Node
from llmperf.validation import rule


class Drill:
    name = "drill"

    def nodes(self, request):
        return [Node(host=f"here{i}", address="127.0.0.1") for i in range(request.nodes)]

    def commands(self, nodes):
        return [replace(node, argv=("nice", *node.argv)) for node in nodes]


@hookimpl
def llmperf_launchers():
    return [Drill()]


class Lines:
    name = "drill lines"

    def __init__(self, path=None):
        self.path = path

    def started(self, plan, folder):
        self.path = self.path or folder / "drill.jsonl"

    def progress(self, progress):
        pass

    def steps(self, steps):
        with self.path.open("a") as file:
            file.writelines(json.dumps({"step": step.step, "loss": step.loss}) + "\n" for step in steps)

    def ended(self, result, folder):
        with self.path.open("a") as file:
            file.write(json.dumps({"ended": None if result is None else result.status}) + "\n")


@hookimpl
def llmperf_observers():
    return [Lines()]


@hookimpl
def llmperf_loggers():
    return [Logger(name="drill", value="FILE", open=lambda value: Lines(Path(value)))]


@rule("DRILL1", "note", "A run has a hundred measured steps", page="# DRILL1\n")
def enough_steps(result):
    if result.metrics.measured_steps < 100:
        yield "/metrics/measured_steps", f"expected at least 100, found {result.metrics.measured_steps}"


@hookimpl
def llmperf_rules():
    yield enough_steps


class Cells:
    name = "drill"

    def render(self, sheets, language):
        return "".join(f"{shown(sheet.cell('model'))}\n" for sheet in sheets)


@hookimpl
def llmperf_reporters():
    return [Cells()]


@hookimpl
def llmperf_count_flops(model, workload):
    return None

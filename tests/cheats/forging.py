"""The tools of a skilled forger: a copy of a run folder, edited as one, and its result computed again by llmperf."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from llmperf import open_batches
from llmperf.files import json_files
from llmperf.planning.build import plan_only
from llmperf.planning.ready import ready
from llmperf.planning.states import Planned, Selection, Site
from llmperf.reporting.markdown import render_results
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.types import Plan
from llmperf_verify.reference.decoder import first_losses

CASE, FRAMEWORK = "default", "pytorch"
SETTINGS = ("model=llama_tiny", "dataset=synthetic", "seq_len=32", "steps=12", "warmup_steps=2")
"""The contract of the honest run: 4 sequences of 32 tokens in each of 12 steps, on two ranks."""
OWN_FIELDS = ("run_id", "created", "interpreter", "env", "notes")
"""Parts of a plan that say where and when it was made, and not what was asked for."""

SPREAD = (1.22, 1.3, 1.0, 1.26, 1.5, 1.24, 1.2, 1.35, 1.28, 1.23)
"""Times of steps by the fastest: an uneven run."""
CLOCKS = ("at", "monotonic", "uptime")
Document = dict[str, Any]


@cache
def _planned(settings, devices, options):
    site = Site(devices=devices, **dict(options))
    outcome = ready(plan_only(Selection(CASE, framework=FRAMEWORK, settings=settings), site))
    assert isinstance(outcome, Planned), outcome
    return json_files.encode(outcome.plan).decode()


def planned(*settings, devices=2, **options):
    """The plan that llmperf itself makes of the honest contract with further settings."""
    options = options or {"vendor": "cpu"}
    return json.loads(_planned((*SETTINGS, *settings), devices, tuple(sorted(options.items()))))


class Forgery:
    """A run folder to be forged: its plan, its records and all else that lies in it, as plain dictionaries."""

    def __init__(self, honest, folder):
        shutil.copytree(honest, folder, ignore=shutil.ignore_patterns(filenames.RESULT, filenames.REPORT, "logs"))
        self.folder = folder
        self.documents = {
            path.relative_to(folder).as_posix(): json.loads(path.read_text()) for path in folder.rglob("*.json")
        }
        self.tables = {
            path.relative_to(folder).as_posix(): [json.loads(line) for line in path.read_text().splitlines()]
            for path in folder.rglob("*.jsonl")
        }

    @property
    def plan(self):
        return self.documents[filenames.PLAN]

    @property
    def ranks(self):
        """The records of each rank."""
        return [rows for name, rows in sorted(self.tables.items()) if name.startswith(f"{filenames.RECORDS}/rank-")]

    @property
    def samples(self):
        """The readings of the devices and of the host."""
        return [row for name, rows in self.tables.items() for row in rows if row.get("kind") == "memory"]

    def of_kind(self, kind):
        """The records of one kind of all ranks."""
        return (record for rows in self.ranks for record in rows if record.get("kind") == kind)

    def steps(self, measured=None):
        """The steps of all ranks."""
        return (step for step in self.of_kind("step") if measured in (None, step["measured"]))

    def replan(self, *settings, devices=2, **options):
        """Put a plan of other settings, made by llmperf, in the place of the real one."""
        mine = {name: self.plan[name] for name in OWN_FIELDS if name in self.plan}
        agent = self.plan["worker"]["agent"]
        self.documents[filenames.PLAN] = planned(*settings, devices=devices, **options) | mine
        self.plan["worker"]["agent"] = agent
        for record in self.of_kind("rank"):
            record["data_fingerprint"] = self.plan["data_fingerprint"]

    def set_rank(self, rank, rows):
        """Records as those of a rank."""
        own = [{**row, "rank": rank} if "rank" in row else dict(row) for row in rows]
        self.tables[f"{filenames.RECORDS}/rank-{rank:05d}.jsonl"] = own

    def set_ranks(self, count):
        """Only so many ranks, all of which have ended well."""
        for name in [name for name in self.tables if name.startswith(f"{filenames.RECORDS}/rank-")]:
            if int(name[-11:-6]) >= count:
                del self.tables[name]
                (self.folder / name).unlink(missing_ok=True)
        for report in self._agent_reports():
            first = json.dumps(report["ranks"][0])
            report["ranks"] = [json.loads(first) | {"rank": rank, "pid": 4242 + rank} for rank in range(count)]

    def set_losses(self, losses, *, first_too=True):
        """The mean loss of each step; the ranks differ from it as they did. Sequences of step 1 move along.

        Not `first_too`: step 1 is left as it was trained.
        """
        steps = [step for step in self.steps() if first_too or step["step"] > 1]
        mean = self.curve()
        for step in steps:
            step["loss"] += losses[step["step"] - 1] - mean[step["step"]]
        if first_too:
            for record in self.of_kind("sequences"):
                record["losses"] = [loss + losses[0] - mean[1] for loss in record["losses"]]

    def sequences(self):
        """The losses of the sequences of step 1 that are recorded, in the order of ranks."""
        return [loss for record in self.of_kind("sequences") for loss in record["losses"]]

    def set_sequences(self, losses):
        """The losses of the sequences of step 1, in the order of ranks; the loss of the step is their mean."""
        share = len(losses) // len(self.ranks)
        for rank, rows in enumerate(self.ranks):
            own = list(losses[rank * share : (rank + 1) * share])
            for row in rows:
                if row.get("kind") == "sequences":
                    row["losses"] = own
                elif row.get("step") == 1:
                    row["loss"] = sum(own) / len(own)

    def forward(self, model=None, contract=None):
        """What a forward pass of the plan's first step gives for each sequence, in the order of ranks.

        `model` and `contract` have the facts in which the pass differs from the plan.
        """
        plan = json_files.convert(self.plan, Plan, filenames.PLAN)
        batches = [open_batches(plan, rank) for rank in range(plan.batch.data_parallel)]
        steps = plan.batch.gradient_accumulation
        sequences = np.concatenate([each.next_micro_batch() for each in batches for _ in range(steps)])
        facts = replace(plan.spec.model, **model or {}), replace(plan.spec.contract, **contract or {})
        return [float(loss) for loss in first_losses(*facts, sequences)]

    def curve(self):
        """The mean loss over ranks of each step."""
        of: dict[int, list[float]] = {}
        for step in self.steps():
            of.setdefault(step["step"], []).append(step["loss"])
        return {number: sum(losses) / len(losses) for number, losses in of.items()}

    def scale_times(self, factor):
        """All that has a time, in every file, takes `factor` as long, from the first reading on."""
        records = list(self._records())
        begin = {name: min(record[name] for record in records if _is_moment(record, name)) for name in CLOCKS}
        counters: dict[str, float] = {}
        for record in records:
            for name, value in record.items():
                if name in CLOCKS and _is_moment(record, name):
                    record[name] = begin[name] + (value - begin[name]) * factor
                elif name in ("busy_seconds", "own_seconds"):
                    first = counters.setdefault(name, value)
                    record[name] = first + (value - first) * factor
                elif name.endswith("_seconds") and isinstance(value, float):
                    record[name] = value * factor

    def move(self, seconds):
        """Every reading of the wall clock is moved; texts with a date are not."""
        for record in self._records():
            if _is_moment(record, "at"):
                record["at"] += seconds

    def _records(self):
        """Every object in every file of records."""
        others = [value for name, value in self.documents.items() if name not in (filenames.PLAN, filenames.MACHINE)]
        yield from _objects([list(self.tables.values()), others])

    def time_steps(self):
        """Measured steps that took known times, up to 1.5 times the fastest, and a measured peak of the host."""
        for step in self.steps(measured=False):
            step["step_seconds"] = 0.4
        self.set_window(lambda rank, step: 0.2 * SPREAD[step % len(SPREAD)] + 1e-5 * rank * step)
        device = self.plan["probe"]["devices"][0]["model"]
        self.plan["peak"] = {
            "device_model": device, "dtype": "fp32", "flops_per_second": 2e11, "source": "measured on this host",
            "date": "2026-01-15", "confidence": "measured",
        }  # fmt: skip
        self.plan["peak_problem"] = self.documents[filenames.ENDING]["peak_again"] = None

    def set_window(self, seconds):
        """Other durations of the measured steps, by rank and step, with stamps and window to match."""
        for rank, rows in enumerate(self.ranks):
            begin = next(row for row in rows if row.get("phase") == "measuring")
            old = new = begin["monotonic"]
            for row in rows[rows.index(begin) + 1 :]:
                if row.get("kind") == "step":
                    old, row["step_seconds"] = row["monotonic"], seconds(rank, row["step"])
                    new += row["step_seconds"]
                    row["monotonic"], row["at"] = new, row["at"] + new - old
                elif "monotonic" in row:
                    if row.get("phase") == "evaluating":
                        new += 1e-4 * (new - begin["monotonic"]) + old - row["monotonic"]
                    row["monotonic"], row["at"] = row["monotonic"] + new - old, row["at"] + new - old
                if row.get("phase") == "evaluating":
                    window = row["monotonic"] - begin["monotonic"]
                elif row.get("kind") == "rank":
                    if row["communication_seconds"] is not None:
                        row["communication_seconds"] *= window / row["window_seconds"]
                    row["window_seconds"] = window
            self._show_agents(rank, old, new)

    def _show_agents(self, rank, old, new):
        """The agent of the node saw the end of a rank's window at another time."""
        for report in self._agent_reports():
            for own in (own for own in report["ranks"] if own["rank"] == rank):
                for seen in own.get("phases", ()):
                    if seen["phase"] in ("evaluating", "done"):
                        seen["monotonic"] += new - old
                        if seen["uptime"] is not None:
                            seen["uptime"] += new - old

    def _agent_reports(self):
        prefix = f"{filenames.RECORDS}/agent-"
        return [document for name, document in self.documents.items() if name.startswith(prefix)]

    def save(self):
        """Write plan and records."""
        for name, document in self.documents.items():
            json_files.save(self.folder / name, document)
        for name, rows in self.tables.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"".join(json_files.encode(row) + b"\n" for row in rows))

    def seal(self, change=None):
        """Write everything and let llmperf compute the result, its hashes and its report; the run folder.

        `change` edits the result afterwards.
        """
        self.save()
        result = build_result(self.folder)
        json_files.save(self.folder / filenames.RESULT, result)
        json_files.write_bytes(self.folder / filenames.REPORT, render_results([result]).encode())
        if change is not None:
            path = self.folder / filenames.RESULT
            document = json.loads(path.read_text())
            change(document)
            path.write_text(json.dumps(document))
        return self.folder


def _is_moment(record, name):
    return isinstance(record.get(name), float)


def _objects(value):
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _objects(inner)

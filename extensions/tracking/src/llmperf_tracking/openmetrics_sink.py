"""OpenMetrics: the present figures of a run as text, for the textfile collector of a node exporter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmperf import read_toml, write_bytes

from llmperf_tracking.run_log import Scalar

LABELS = ("case", "model", "framework", "vendor", "device")
"""Hyperparameters that are labels of `llmperf_run_info`."""
STATES = ("running", "complete", "failed", "aborted")
LIVE, RESULT = read_toml(Path(__file__).with_name("openmetrics.toml")).values()


class OpenMetricsSink:
    """One file, which shows the present or the last run; it is replaced as a whole, so that no reader sees a part."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, run_id: str, parameters: Mapping[str, Scalar]) -> None:
        """Write the file with what is run."""
        self._run_id = run_id
        self._info = {name: str(parameters.get(name, "")) for name in LABELS}
        self._live: dict[str, float] = {}
        self._write("running", {})

    def steps(self, steps: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Replace the figures by those of the last step."""
        for step, figures in steps:
            self._live |= {"step": step, **figures}
        self._write("running", {})

    def end(self, status: str, last_step: int, figures: Mapping[str, float]) -> None:
        """Add the figures of the result."""
        self._write(status, figures)

    def _write(self, status: str, result: Mapping[str, float]) -> None:
        run = {"run": self._run_id}
        lines = _family("run_info", "What is run", [(run | self._info, 1.0)])
        states = [(run | {"state": state}, float(state == status)) for state in STATES]
        lines += _family("run_state", "1 for the state that the run is in", states)
        for name, text in LIVE.items():
            if name in self._live:
                lines += _family(name, text, [(run, self._live[name])])
        for name, text in RESULT.items():
            if name in result:
                lines += _family(f"result_{name}", text, [(run, result[name])])
        write_bytes(self._path, "\n".join([*lines, "# EOF", ""]).encode())


def _family(name: str, text: str, samples: Sequence[tuple[Mapping[str, str], float]]) -> list[str]:
    """The lines of one gauge. All are gauges, as node exporters do not know the type `info`."""
    lines = [f"# TYPE llmperf_{name} gauge", f"# HELP llmperf_{name} {text}."]
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        lines.append(f"llmperf_{name}{{{inner}}} {_number(value)}")
    return lines


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"

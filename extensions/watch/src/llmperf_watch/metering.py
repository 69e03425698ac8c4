"""`meter`: the speed of a training loop in Python, by three lines in it, without waiting for a device."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

MOST_LOSSES = 4096
"""Losses that are held until the end, evenly over the run: reading one from a device waits for it."""


class Meter:
    """Counts the steps of a loop. Ranks other than 0 count nothing, and write nothing."""

    def __init__(
        self,
        *,
        out: str | os.PathLike[str] = "runs",
        model: str | None = None,
        precision: str | None = None,
        accelerator: str | None = None,
        devices: int | None = None,
        sequence_length: int | None = None,
    ) -> None:
        self._out = Path(out)
        self._facts: dict[str, Any] = {"model": model, "precision": precision, "device_model": accelerator,
                                       "devices": devices, "seq_len": sequence_length}  # fmt: skip
        self._counts = os.environ.get("RANK", "0") == "0"
        self._at: list[float] = []
        self._tokens: list[float] = []
        self._losses: dict[int, Any] = {}
        self._every = 1
        self.path: Path | None = None
        """The document, when the loop has ended; None on ranks other than 0, and before."""

    def __enter__(self) -> Self:
        if self._counts:
            from llmperf_watch.command import Devices, check_names, new_folder

            check_names(self._facts["model"], self._facts["device_model"], "accelerator")
            self._folder = new_folder(self._out)
            self._devices = Devices(self._folder)
            self._devices.__enter__()
        self._begin = time.monotonic()
        return self

    def step(self, tokens: float, loss: Any = None) -> None:
        """One optimiser step has been given to the device: `tokens` of all ranks together, and its loss.

        `loss` may be a number, or a tensor, which is read when the loop has ended.
        """
        if not self._counts:
            return
        self._at.append(time.monotonic() - self._begin)
        self._tokens.append(tokens)
        if loss is not None:
            self.loss(loss)

    def loss(self, loss: Any) -> None:
        """The loss of the step before, where it is known later."""
        if self._at and len(self._at) % self._every == 0:
            self._losses[len(self._at)] = loss.detach() if hasattr(loss, "detach") else loss
            if len(self._losses) > MOST_LOSSES:
                self._every *= 2
                self._losses = {step: kept for step, kept in self._losses.items() if step % self._every == 0}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._counts:
            return
        from llmperf_watch.document import OPTIONS, document, stated, write
        from llmperf_watch.profiles import Profile
        from llmperf_watch.reading import Reading, Reported
        from llmperf_watch.text import summary_lines

        self._devices.__exit__(kind, error, trace)
        facts = stated(
            self._facts, {name: f"{option[2:].replace('-', '_')} of meter" for name, option in OPTIONS.items()}
        )
        facts |= {} if "device_model" in facts else self._devices.facts()
        losses = {} if error is not None else {step: float(loss) for step, loss in self._losses.items()}
        steps = []
        for step, (at, tokens) in enumerate(zip(self._at, self._tokens, strict=True), 1):
            loss = {"loss": losses[step]} if step in losses else {}
            steps.append(Reported(at, {"step": float(step), "tokens": float(tokens), **loss}))
        reading = Reading(Profile("meter", "llmperf_watch.meter", "the program's calls of step()", ()), steps)
        notes = [*self._devices.notes, *([] if kind is None else [f"the loop ended with {kind.__name__}"])]
        watched = document(reading=reading if steps else None, lines=len(steps), facts=facts, clock="llmperf",
                           evidence="metered", sampled=self._devices.sampled(), notes=notes)  # fmt: skip
        self.path = write(watched, self._folder)
        for line in summary_lines(watched):
            print(line, file=sys.stderr)


meter = Meter
"""For a `with` statement; keywords state what the loop does not say."""

"""Measure any training program: run a command, read its steps from its output, and write what they show."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click
from llmperf import Folder, model_names, printable
from llmperf.errors import LlmperfError, UserError

EXAMPLES = """\b
Examples:
  llmperf watch -- torchrun --nproc-per-node 8 train.py
  llmperf watch --model llama3_1_8b --precision bf16 --devices 8 --sequence-length 8192 -- bash train.sh
  llmperf watch --profile my_trainer.toml -- python train.py
  llmperf report runs
"""
PRECISIONS = ("bf16", "fp16", "tf32", "fp32", "fp8")


@click.command("watch", epilog=EXAMPLES)
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--out", metavar="DIR", type=Folder(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for run folders.")  # fmt: skip
@click.option("--profile", "chosen", metavar="NAME|FILE", help="The log profile; without it, the one that fits.")
@click.option("--model", metavar="NAME", shell_complete=model_names, help="A model of `llmperf models`.")
@click.option("--precision", type=click.Choice(PRECISIONS), help="Precision of the matrix products.")
@click.option("--accelerator", "device_model", metavar="DEVICE",
              help="Model of the devices, if they are not those of this machine.")  # fmt: skip
@click.option("--devices", type=click.IntRange(min=1), help="How many devices the program uses.")
@click.option("--sequence-length", "seq_len", type=click.IntRange(min=1), help="Tokens of a sequence.")
@click.option("--global-batch", type=click.IntRange(min=1), help="Sequences of one optimiser step, of all devices.")
@click.option("--steps-per-line", type=click.IntRange(min=1),
              help="Optimiser steps from one line to the next, if lines have no step number.")  # fmt: skip
@click.option("--propose", metavar="LOG", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Print a log profile for the lines that a log repeats, instead of running a command.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, /, words: tuple[str, ...], out: Path, chosen: str | None, propose: Path | None, **said: Any
) -> None:
    """Run COMMAND, stamp its output with llmperf's clock, read its steps, and write watched.json and output.log.

    Nothing in the program changes. Tokens are those that the program reports or that you state, so this is no result of
    llmperf: it is a document of its own kind, which says of each figure where it comes from. What is neither printed
    nor stated is unknown. The exit status is that of the command.
    """
    from llmperf_watch.document import LOG, document, stated, write
    from llmperf_watch.profiles import all_profiles, find_profile
    from llmperf_watch.reading import Reader
    from llmperf_watch.text import summary_lines
    from llmperf_watch.watching import watch, without_secrets

    if propose is not None:
        from llmperf_watch.proposing import proposed

        with propose.open(encoding="utf-8", errors="replace") as log:
            click.echo(proposed(log, propose.name), nl=False)
        return
    if not words:
        raise UserError("watch: expected a command after --, such as: llmperf watch -- python train.py")
    check_names(said["model"], said["device_model"], "--accelerator")
    reader = Reader([find_profile(chosen)] if chosen else all_profiles())
    facts, folder = stated(said), new_folder(out)
    devices = Devices(folder)
    facts |= {} if "device_model" in facts else devices.facts()
    with devices:
        status = watch(words, reader.add, folder / LOG)
    watched = document(reading=reader.best(), lines=reader.lines, facts=facts, clock="llmperf", evidence="watched",
                       command=without_secrets(words), exit_status=status, log=folder / LOG,
                       sampled=devices.sampled(), notes=devices.notes)  # fmt: skip
    path = write(watched, folder)
    for line in summary_lines(watched):
        click.echo(printable(line), err=True)
    click.echo(f"written to {path}", err=True)
    ctx.exit(status)


def check_names(model: str | None, device: str | None, option: str) -> None:
    """UserError for a model that is not in the library, and for a device that `option` states and no vendor knows."""
    from llmperf import catalogued
    from llmperf.validation import known_library

    if model is not None and model.endswith(".toml"):
        raise UserError(f"--model: expected a name of `llmperf models`, by which figures are checked, found {model!r}")
    if model is not None:
        known_library().model(model, "--model")
    if device is not None:
        catalogued(device, option)


def new_folder(out: Path) -> Path:
    """A new run folder below `out`."""
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-watch-{os.urandom(2).hex()}"
    folder = out / name
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror or error}") from None
    return folder


class Devices:
    """The devices of this machine, read once a second while a program runs. Everything else works without them."""

    def __init__(self, folder: Path) -> None:
        from llmperf import this_machine, vendor_sampler

        self.notes: list[str] = []
        self.model: str | None = None
        self._folder, self._sampler = folder, None
        try:
            probe = this_machine(None).probe
            self.model, self._vendor = probe.devices[0].model, probe.vendor
            indexes = tuple(device.index for device in probe.devices)
            self._sampler = vendor_sampler(folder / "memory.jsonl", probe.vendor, indexes)
        except LlmperfError as error:
            self.notes.append(f"devices: {error}")

    def facts(self) -> dict[str, Any]:
        """Vendor and model, as seen here."""
        from llmperf_watch.types import Stated

        seen = {} if self.model is None else {"vendor": self._vendor, "device_model": self.model}
        return {name: Stated(value=value, source="seen on this machine") for name, value in seen.items()}

    def __enter__(self) -> None:
        if self._sampler is not None:
            self._sampler.start()

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None:
            self._sampler.stop()
            if self._sampler.problem:
                self.notes.append(f"devices: {self._sampler.problem}")

    def sampled(self) -> Any:
        """What the readings show; None without any."""
        from llmperf.validation import NodeReadings, samples_of

        from llmperf_watch.types import Sampled

        node = NodeReadings((0.0, float("inf")))
        for sample in samples_of(self._folder, 0) if self._sampler is not None else ():
            node.add(sample)
        devices = list(node.devices.values())
        if not devices:
            return None
        used = [device.utilisation_percent for device in devices if device.utilisation_percent.count]
        power = [device.power_watts.value for device in devices if device.power_watts.count]
        memory = [device.memory_used_bytes for device in devices if device.memory_used_bytes is not None]
        return Sampled(readings=node.inside, memory_peak_bytes=max(memory, default=None),
                       power_watts=sum(power) if len(power) == len(devices) else None,
                       utilisation_percent=sum(mean.value for mean in used) / len(used) if used else None)  # fmt: skip

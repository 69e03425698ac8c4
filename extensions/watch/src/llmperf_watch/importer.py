"""`llmperf import LOG`: the output of a program that ran before, by the same profiles and the times that it printed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from llmperf import printable, read_toml
from llmperf.errors import UserError

from llmperf_watch.profiles import all_profiles, find_profile, profile_files
from llmperf_watch.reading import Reader
from llmperf_watch.scalars import EVENTS, SHARED, are_scalars, scalar_lines
from llmperf_watch.watching import READ_BYTES, Lines

NAMES = (".log", ".txt", ".out", ".err", ".jsonl", "")


class LogImporter:
    """Reads logs of training programs, and scalars of TensorBoard and Weights & Biases."""

    title = "logs of training programs"

    def has_profile(self, name: str, path: Path) -> bool:
        """Check whether `--profile` names a log profile; its name may also be that of a profile of tables."""
        by_name = path.suffix.lower() in NAMES and path.is_file() and name in profile_files()
        return "line" in read_toml(Path(name)) if name.endswith(".toml") else by_name

    def claims(self, path: Path) -> bool:
        """Check whether a profile reads a step in the beginning of a file."""
        if path.is_dir():
            return next(path.glob(f"{EVENTS}*"), None) is not None
        if not path.is_file() or path.suffix.lower() not in NAMES or are_scalars(path):
            return path.is_file() and are_scalars(path)
        reader = Reader(all_profiles())
        with path.open("rb") as file:
            for line in file.read(2**20).decode("utf-8", "replace").replace("\r", "\n").split("\n"):
                reader.add(line)
        return reader.best() is not None

    def read(
        self, paths: Sequence[Path], out: Path, stated: Mapping[str, str | None], *, force: bool, as_json: bool
    ) -> None:
        """Write `watched.json` of each log to a folder of its name, and print what it says."""
        from llmperf import print_json

        from llmperf_watch.command import check_names
        from llmperf_watch.document import FILE, OPTIONS, document, write
        from llmperf_watch.document import stated as facts_of
        from llmperf_watch.text import summary_lines

        check_names(stated.get("model"), stated.get("device"), "--device")
        facts, chosen = facts_of(_facts(stated), OPTIONS | {"device_model": "--device"}), stated.get("profile")
        homes = [path.resolve().parent if path.name.startswith(SHARED) else path for path in paths]
        targets = [out / (home.resolve().name if home.is_dir() else home.stem) for home in homes]
        for path, target in zip(paths, targets, strict=True):
            if path.is_dir() and not self.claims(path):
                raise UserError(f"{path}: expected a log, found a folder; name its files, such as {path}/*.log")
            if targets.count(target) > 1:
                raise UserError(f"{path}: expected logs of different names, found two for {target}")
            if (target / FILE).exists() and not force:
                raise UserError(f"{target / FILE}: expected no file of that name, found one; --force replaces it")
        made = []
        for path, target in zip(paths, targets, strict=True):
            reader = Reader([find_profile(chosen)] if chosen else all_profiles())
            for line in _lines(path):
                reader.add(line)
            if chosen and reader.best() is None:
                raise UserError(
                    f"{path}: no step is read by {chosen}; `llmperf watch --propose {path}` makes a profile"
                )
            log = document(reading=reader.best(), lines=reader.lines, facts=facts, clock="program", evidence="log",
                           log=path if path.is_file() else None)  # fmt: skip
            target.mkdir(parents=True, exist_ok=True)
            made.append((log, write(log, target)))
        if as_json:
            names = ("profile", "lines", "facts", "figures", "notes")
            print_json([{"written_to": str(path)} | {name: getattr(log, name) for name in names} for log, path in made])
            return
        for log, path in made:
            for line in summary_lines(log):
                click.echo(printable(line))
            click.echo(f"written to {path}")


def _lines(path: Path) -> Iterator[str]:
    if path.is_dir() or are_scalars(path):
        for part in sorted(path.glob(f"{EVENTS}*")) if path.is_dir() else [path]:  # each start has a file
            yield from scalar_lines(part)
        return
    found: list[str] = []
    cut = Lines(lambda line, _: found.append(line))
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            if b"\0" in data[:1000]:
                raise UserError(f"{path}: expected a log in UTF-8, found bytes of 0, as in UTF-16")
            cut.add(data, 0.0)
            yield from found
            found.clear()
    cut.add(b"", 0.0, final=True)
    yield from found


def _facts(stated: Mapping[str, str | None]) -> dict[str, str | float | None]:
    """The facts that options of `llmperf import` state; UserError for a count that is none."""
    facts: dict[str, str | float | None] = {"device_model": stated.get("device")}
    facts |= {name: stated.get(name) for name in ("precision", "model")}
    for name, option in {"devices": "devices", "seq_len": "sequence_length", "global_batch": "global_batch"}.items():
        text = stated.get(option)
        if text is None:
            continue
        parts = text.lower().removesuffix("k").split("x")
        if not all(part.isdecimal() and 0 < int(part) < 10**9 for part in parts):
            raise UserError(f"--{option.replace('_', '-')}: expected a whole number, found {text!r}")
        facts[name] = float(math.prod(map(int, parts)) * (1024 if text.lower().endswith("k") else 1))
    return facts

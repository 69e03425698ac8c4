"""Combinations that can run: all are planned at once, and none is started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmperf import write_bytes
from llmperf.errors import UserError
from llmperf.launching import end_with_parent, python_module

from llmperf_sweep.tune.space import Candidate, given

PREFIX = "llmperf: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A call of `llmperf` that has ended."""

    code: int
    """Its exit code; negative for a signal."""
    document: Any
    """JSON that it printed; None if it printed no JSON."""
    error: str
    """The last line on standard error."""


def llmperf(words: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run `llmperf WORDS`, with standard error in a file. The process ends with this one, also if that is killed."""
    with log.open("ab") as errors:
        begin = errors.tell()
        process = subprocess.Popen(
            [*python_module("llmperf"), *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(env or {})},
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        try:
            output, _ = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    try:
        document = json.loads(output)
    except ValueError:
        document = None
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read()[-4000:].decode(errors="replace").splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "")
    return Ended(code=process.returncode, document=document, error=last.removeprefix(PREFIX))


def asked(words: Sequence[str], log: Path) -> Any:
    """The JSON document of a call that must not fail; UserError with its message if it does."""
    ended = llmperf(words, log)
    if ended.document is None:
        raise UserError(ended.error or f"llmperf {' '.join(words)}: ended with {ended.code} and no document; see {log}")
    return ended.document


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Constants of all runs of a search."""

    case: str
    """A name, or the path of a file."""
    options: tuple[str, ...] = ()
    """Options of `llmperf run` that a matrix takes too, such as `--launcher`."""
    vendor: str | None = None
    framework: str | None = None
    devices: int | None = None
    settings: tuple[str, ...] = ()
    """Those that the user fixed, as `--set` takes them."""

    def words(self, candidate: Candidate, settings: Iterable[str] = ()) -> list[str]:
        """The arguments of `llmperf run` or `plan` for one candidate, with further settings."""
        named = {"--vendor": self.vendor, "--framework": self.framework, "--devices": self.devices}
        chosen = [word for name, value in named.items() if value is not None for word in (name, str(value))]
        texts = [*self.settings, *settings, *(f"{path}={value}" for path, value in given(candidate).items())]
        return [self.case, *chosen, *self.options, *(word for text in texts for word in ("--set", text))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A candidate after planning."""

    values: Candidate
    refusals: tuple[str, ...] = ()
    """Reasons why it cannot run; empty if it can."""
    step_seconds: float | None = None
    """By the estimate; None without one."""


def planned(search: Search, candidates: Sequence[Candidate], folder: Path) -> list[Planned]:
    """Plan all candidates by one matrix file in the search's folder; UserError if none of them can run."""
    case = str(Path(search.case).absolute()) if search.case.endswith(".toml") else search.case
    named = {"vendor": search.vendor, "framework": search.framework, "devices": search.devices}
    common = {name: value for name, value in named.items() if value is not None}
    fixed = dict(text.partition("=")[::2] for text in search.settings)
    lines = [f"cases = [{json.dumps(case)}]"]  # the first cell is the case as it is
    for candidate in candidates:
        lines += ["", "[[include]]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in common.items()]
        lines += [f"{json.dumps(name.strip())} = {literal(value.strip())}" for name, value in fixed.items()]
        lines += [f"{json.dumps(name)} = {literal(value)}" for name, value in given(candidate).items()]
    path = folder / "space.toml"
    write_bytes(path, "\n".join([*lines, ""]).encode())
    words = ["run", "--matrix", str(path), "--dry-run", "--json", *search.options]
    cells = asked(words, folder / "planning.log")["cells"][1:]
    if len(cells) != len(candidates):
        raise UserError(f"{path}: {len(candidates)} candidates, but {len(cells)} cells were planned")
    return [
        Planned(values=values, refusals=tuple(cell["refusals"]), step_seconds=cell["expected_step_seconds"])
        for values, cell in zip(candidates, cells, strict=True)
    ]


def literal(text: str) -> str:
    """A value of `--set` as TOML has it: numbers, lists, true and false as they are, anything else in quotes."""
    try:
        json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return json.dumps(text)
    return text.lower() if text.lower() in ("true", "false") else text

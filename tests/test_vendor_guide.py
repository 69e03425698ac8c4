"""docs/vendors.md was executed: its commands in their order, its edits, and what it shows of their output."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from llmperf.cli.main import COMMANDS, call, extra_commands
from llmperf.vendorkit.peaks import PeakTable

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "vendors.md"
UV = os.environ.get("UV") or shutil.which("uv")

PART = re.compile(
    r"```(?P<language>\w*)\n(?P<text>.*?)```|(?P<away><!-- the test takes acme-smi away here -->)", re.DOTALL
)
SMALL = " --set model=llama_tiny --set steps=6 --set warmup_steps=2"
"""What is added to `llmperf run`, so that it takes seconds."""


def parts() -> Iterator[tuple[str, str]]:
    """Language and text of each block in its order; `away` where the tool goes."""
    for found in PART.finditer(GUIDE.read_text()):
        yield ("away", "") if found["away"] else (found["language"], found["text"])


@dataclass
class Reader:
    """Somebody who does what the guide says in a folder of their own."""

    folder: Path
    printed: str = ""
    done: list[str] = field(default_factory=list)

    @property
    def tool(self) -> Path:
        return self.folder / "bin" / "acme-smi"

    def follow(self, language: str, text: str, commands: bool = True) -> None:
        """One block."""
        if language == "sh" and commands:
            lines = [line.split("  #")[0].strip() for line in text.splitlines() if line.strip()]
            self.printed = "".join([self.shell(line) for line in lines])
        elif language == "diff":
            self.edit(text)
        elif language == "toml":
            first, entry = text.split("\n", 1)
            with (self.folder / first.removeprefix("# ")).open("a") as file:
                file.write("\n" + entry)
        elif language == "console" and commands:
            self.play(text.split("\n", 1)[1])
        elif language == "text" and commands:
            printed = {" ".join(line.split()) for line in self.printed.splitlines()}
            assert {" ".join(line.split()) for line in text.splitlines()} <= printed, self.printed
        elif language == "away" and commands:
            self.tool.unlink()

    def edit(self, diff: str) -> None:
        """Lines without a sign or with a minus must stand in the file once; those with a plus come in their place."""
        heading, *lines = diff.splitlines()
        path = self.folder / heading.removeprefix("--- ")
        old = "".join(f"{line[1:]}\n" for line in lines if line[0] != "+")
        new = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
        before = path.read_text()
        assert before.count(old) == 1, f"{path.name}: {old}"
        path.write_text(before.replace(old, new))

    def play(self, rows: str) -> None:
        self.tool.parent.mkdir(exist_ok=True)
        self.tool.write_text(f"#!/bin/sh\ncat <<'END'\n{rows}END\n")
        self.tool.chmod(0o755)

    def shell(self, line: str) -> str:
        """What a command of the guide prints. The package is put where only this reader sees it."""
        if line.startswith("uv pip install -e "):
            target = f"--offline --no-deps --no-build-isolation --python {sys.executable} --target site"
            line = f"{UV} pip install -q {target} {line.split(' -e ')[1]}"
        elif line.startswith("llmperf run"):
            line += SMALL
        source = self.folder / "llmperf-acme" / "src"
        path = os.pathsep.join([str(self.tool.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "PYTHONPATH": f"{source}:{self.folder / 'site'}", "COLUMNS": "200"}
        command = ["bash", "-euo", "pipefail", "-c", line]
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        self.done.append(line)
        return done.stdout


def test_the_guide_names_commands_that_exist_and_every_step_of_the_way():
    text = GUIDE.read_text()
    named = set(re.findall(r"\bllmperf ([a-z-]+)", "\n".join(block for language, block in parts() if language == "sh")))
    assert named <= {*COMMANDS, *extra_commands()}
    assert {"new", "devices", "check-plugin", "plan", "run", "validate", "report", "pack", "align"} <= named
    for vendor in ("nvidia", "kunlunxin", "rocm"):
        assert f"../vendors/{vendor}/" in text


def test_the_edits_of_the_guide_fit_what_a_new_vendor_is(tmp_path):
    assert call(["new", "vendor", "acme", "--out", str(tmp_path)]) == 0
    reader = Reader(tmp_path)
    for language, text in parts():
        reader.follow(language, text, commands=False)
    for path in tmp_path.rglob("*.py"):
        ast.parse(path.read_text())
    table = PeakTable.read(tmp_path / "llmperf-acme" / "src" / "llmperf_acme" / "data" / "peaks.toml", vendor="acme")
    assert [one.model for one in table.entries] == ["Acme A1"]


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="needs uv, which builds and installs the package")
def test_the_guide_leads_from_nothing_to_a_submission(tmp_path):
    reader = Reader(tmp_path)
    for language, text in parts():
        reader.follow(language, text)
    left = [path.name for path in (tmp_path / "llmperf-acme").rglob("*.py") if "stand_in" in path.read_text()]
    assert left == []
    assert (tmp_path / "trial.zip").is_file()
    assert len([line for line in reader.done if line.startswith("llmperf")]) > 15

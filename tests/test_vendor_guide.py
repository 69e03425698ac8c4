"""docs/vendors.md is executed: its commands in their order, its edits, and the output that it shows."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from llmperf.cli.main import COMMANDS, call, extra_commands
from llmperf_vendorkit import PeakTable

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "vendors.md"
UV = os.environ.get("UV") or shutil.which("uv")

PART = re.compile(
    r"```(?P<language>\w*)\n(?P<text>.*?)```|<!-- the test (?P<away>takes acme-smi away)"
    r"|<!-- the test (?P<begins>begins)|<!-- the test (?P<ends>ends)",
    re.DOTALL,
)
SMALL = " --set model=llama_tiny --set steps=6 --set warmup_steps=2"
"""Added to `llmperf run`, so that it takes seconds."""


def parts(variants=False):
    """Language and text of each block of the main way, or of its variants, in their order.

    The language is `away` where the tool is removed, and `variant` where a variant begins.
    """
    inside = False
    for block in PART.finditer(GUIDE.read_text()):
        inside = (inside or bool(block["begins"])) and not block["ends"]
        if inside == variants and not block["ends"]:
            language = "variant" if block["begins"] else "away" if block["away"] else block["language"]
            yield language, block["text"] or ""


@dataclass
class Reader:
    """Somebody who does what the guide says in a folder of their own."""

    folder: Path
    printed: str = ""
    answers: dict[str, str] = field(default_factory=dict)
    """What the tool prints, by its arguments."""
    done: list[str] = field(default_factory=list)

    @property
    def tool(self):
        return self.folder / "bin" / "acme-smi"

    def follow(self, language, text, commands=True):
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
            self.play(text)
        elif language == "text" and commands:
            self.compare(text)
        elif language == "away" and commands:
            self.tool.unlink()
            self.extension.unlink()

    def compare(self, text):
        """Every line of a block is among those printed, whatever the widths of the columns."""
        printed = {" ".join(line.split()) for line in self.printed.splitlines()}
        assert {" ".join(line.split()) for line in text.splitlines()} <= printed, self.printed

    def edit(self, diff):
        """Lines without a sign or with a minus must be in the file once; those with a plus replace them."""
        heading, *lines = diff.splitlines()
        path = self.folder / heading.removeprefix("--- ")
        old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
        new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
        before = path.read_text()
        assert before.count(old) == 1, f"{path.name}: {old}"
        path.write_text(before.replace(old, new))

    def play(self, text):
        """A tool that prints what a block shows below its command, as well as what it printed before."""
        command, printed = text.split("\n", 1)
        self.answers[command.removeprefix("$ acme-smi ")] = printed
        cases = "".join(f"'{words}') cat <<'END'\n{answer}END\n;;\n" for words, answer in self.answers.items())
        self.tool.parent.mkdir(exist_ok=True)
        self.tool.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) echo "unknown: $*" >&2; exit 2;;\nesac\n')
        self.tool.chmod(0o755)
        self.extension.parent.mkdir(exist_ok=True)
        self.extension.touch()

    @property
    def extension(self):
        """The module that adds the devices to torch, on the machine that has the tool."""
        return self.folder / "site" / "torch_acme.py"

    @property
    def environment(self):
        """Where this reader's tool and package are found."""
        source = self.folder / "llmperf-acme" / "src"
        path = os.pathsep.join([str(self.tool.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "PYTHONPATH": f"{source}:{self.folder / 'site'}", "COLUMNS": "200"}

    def shell(self, line):
        """What a command of the guide prints. The package is put where only this reader sees it."""
        if line.startswith("uv pip install -e "):
            target = f"--offline --no-deps --no-build-isolation --python {sys.executable} --target site"
            line = f"{UV} pip install -q {target} {line.split(' -e ')[1]}"
        elif line.startswith("llmperf run"):
            line += SMALL
        command = ["bash", "-euo", "pipefail", "-c", line]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        self.done.append(line)
        return done.stdout


def test_the_guide_names_commands_that_exist_and_every_step_of_the_way():
    text = GUIDE.read_text()
    named = set(re.findall(r"\bllmperf ([a-z-]+)", "\n".join(block for language, block in parts() if language == "sh")))
    assert named <= {*COMMANDS, *extra_commands()}
    assert {"new", "devices", "check-plugin", "plan", "run", "validate", "report", "pack", "align"} <= named
    for vendor in ("nvidia", "kunlunxin", "rocm", "ascend"):
        assert f"../vendors/{vendor}/" in text


def test_the_edits_of_the_guide_fit_what_a_new_vendor_is(tmp_path):
    assert call(["new", "vendor", "acme", "--out", str(tmp_path)]) == 0
    reader = Reader(tmp_path)
    for language, text in parts():
        reader.follow(language, text, commands=False)
    for path in tmp_path.rglob("*.py"):
        ast.parse(path.read_text())
    table = PeakTable.read(tmp_path / "llmperf-acme" / "src" / "llmperf_acme" / "data" / "peaks.toml", vendor="acme")
    assert [entry.model for entry in table.entries] == ["Acme A1"]


@pytest.mark.slow
def test_each_variant_of_the_guide_shows_what_it_says(tmp_path, announced):
    readers: list[Reader] = []
    for language, text in parts(variants=True):
        if language == "variant":
            reader = Reader(tmp_path / str(len(readers)))
            readers.append(reader)
            assert call(["new", "vendor", "acme", "--out", str(reader.folder)]) == 0
            announced(reader.folder / "site", "llmperf-acme", vendor="acme = llmperf_acme.plugin")
        elif language == "text":
            reader.printed = reader.shell("llmperf devices")
            reader.compare(text)
        elif language == "pycon":
            (reader.folder / "session.txt").write_text(text)
            reader.shell("python -m doctest session.txt")
        else:
            reader.follow(language, text)
    assert len(readers) == 2


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

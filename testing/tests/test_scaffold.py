"""`llmperf new`: what it makes, what it refuses, and that it leaves nothing half made."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf.plugins.discovery import Found
from llmperf.plugins.loading import Plugins
from llmperf.plugins.mending import pip_command
from llmperf_testing.scaffold import LONGEST, PackageName, package_name, rendered, write_package
from llmperf_vendorkit import PeakTable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CORE = version("llmperf-core")
ACME = Found("acme", "vendor", "llmperf_acme.plugin", "llmperf-acme", "0.1.0")


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("kind", "options"), [("vendor", ()), ("framework", ()), ("framework", ("--script",))])
def test_a_new_package_is_complete_and_its_files_can_be_read(kind, options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(["new", kind, "acme-two", *options]) == 0
    folder = tmp_path / "llmperf-acme-two"
    out = capsys.readouterr().out
    assert pip_command("install", "-e", "./llmperf-acme-two") in out
    assert f"llmperf run --{kind} acme_two" in out
    found = files_in(folder)
    workflows = {".github/workflows/test.yml", ".github/workflows/release.yml"}
    for name in (*workflows, ".gitignore", "LICENSE", "README.md", "pyproject.toml"):
        assert name in found
    assert "src/llmperf_acme_two/data/overlays/acme_two_default.toml" in found
    assert {"tests/test_acme_two.py", "tests/test_contract.py"} <= set(found)
    for name in found:
        text = (folder / name).read_text()
        assert name in workflows or "$" not in text, name
        if name.endswith(".py"):
            ast.parse(text)
        if name.endswith(".toml"):
            tomllib.loads(text)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "llmperf-acme-two"
    assert project["dependencies"][0] == f"llmperf-core~={CORE}"
    assert project["entry-points"] == {f"llmperf.{kind}.v1": {"acme_two": "llmperf_acme_two.plugin"}}


def test_the_modes_are_those_that_a_file_made_by_hand_has(tmp_path):
    write_package(tmp_path / "made", {"one": "1"})
    (tmp_path / "by-hand").mkdir()
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "by-hand").stat().st_mode


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_new_packages_are_clean_under_strict_type_checks(tmp_path):
    (tmp_path / "mypy.ini").write_text("[mypy]\nmypy_path = src\n")
    options = ("--strict", "--explicit-package-bases", "--cache-dir", tmp_path, "--config-file", tmp_path / "mypy.ini")
    argv = [sys.executable, "-m", "mypy", *map(str, options), "src", "tests"]
    for kind in ("vendor", "framework", "script"):  # in turn: they share mypy's cache
        write_package(tmp_path / kind, rendered(kind, PackageName("acme-two"), CORE))
        done = subprocess.run(argv, cwd=tmp_path / kind, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def new_vendor(tmp_path, monkeypatch):
    """A new vendor's package where Python finds it, loaded as llmperf loads it."""
    write_package(tmp_path / "llmperf-acme", rendered("vendor", PackageName("acme"), CORE))
    monkeypatch.syspath_prepend(str(tmp_path / "llmperf-acme" / "src"))
    monkeypatch.setenv("PATH", str(tmp_path))
    yield Plugins([ACME])
    for name in [name for name in sys.modules if name.split(".")[0] == "llmperf_acme"]:
        del sys.modules[name]


def test_a_new_vendor_plays_a_device_and_says_so(new_vendor):
    probe = new_vendor.ask("llmperf_probe")
    assert probe.simulated
    assert [one.model for one in probe.devices] == ["Acme stand-in"]
    assert "acme-smi is not installed" in probe.problems[0]


def test_a_new_vendor_has_no_made_up_figures(new_vendor):
    assert new_vendor.ask("llmperf_catalogue") == []
    assert new_vendor.ask("llmperf_peak_flops", device_model="Acme stand-in", dtype="fp32") is None
    (sample,) = new_vendor.ask("llmperf_query_memory", devices=(0,))
    assert (sample.memory_used_bytes, sample.power_watts) == (None, None)


def test_the_example_in_the_peak_table_is_an_entry_once_it_is_no_comment(tmp_path):
    text = rendered("vendor", PackageName("acme"), CORE)["src/llmperf_acme/data/peaks.toml"]
    entry = text[text.index("[[device]]") - 2 :]
    (tmp_path / "peaks.toml").write_text("\n".join(line.removeprefix("# ") for line in entry.splitlines()))
    peak = PeakTable.read(tmp_path / "peaks.toml", vendor="acme").peak_flops("Acme A1", "bf16")
    assert peak.source == "Acme A1 datasheet, version 3, page 2"


BAD_NAMES = [
    ("Acme", "found 'Acme'; did you mean 'acme'?"),
    ("acme_two", "did you mean 'acme-two'?"),
    ("../acme", "did you mean 'acme'?"),
    ("llmperf-acme", "without 'llmperf-' before it; found 'llmperf-acme'; did you mean 'acme'?"),
    ("3d", "did you mean 'd'?"),
    ("", "a letter first, 40 at most; found ''"),
    ("a" * 41, "40 at most"),
    ("kunlunxin", "llmperf-kunlunxin is llmperf's own vendor 'kunlunxin' already"),
    ("megatron-deepspeed", "llmperf's own framework 'megatron_deepspeed' already"),
    ("core", "llmperf-core is llmperf itself already"),
]
REFUSED = [([kind, "--", name], line) for kind in ("vendor", "framework") for name, line in BAD_NAMES]
REFUSED += [
    ([kind, name], f"cannot be named '{name}': two files would be tests/test_")
    for kind, name in (("vendor", "stand-in"), ("vendor", "contract"), ("framework", "contract"))
]
REFUSED += [(["vendor", "acme", "--script"], "--script is for frameworks: llmperf new framework NAME --script")]


@pytest.mark.parametrize(("words", "line"), REFUSED)
def test_a_package_that_cannot_be_is_refused_in_one_line(words, line, tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    err = ran(2, "new", *words).err
    assert line in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_an_installed_plugin_is_taken_in_both_roles(install, tmp_path, ran):
    install("llmperf-bolt", "bolt", "")
    install("somewhere-else", "two_parts", "")
    for name, whose in (("bolt", "vendor 'bolt'"), ("somewhere-else", ""), ("two-parts", "vendor 'two_parts'")):
        expected = 0 if name == "somewhere-else" else 2
        assert whose in ran(expected, "new", "framework", name, "--out", tmp_path / "out").err


@given(st.text(max_size=60))
def test_whatever_is_typed_a_name_is_safe_or_refused_in_one_line(text):
    try:
        name = package_name(text, [])
    except UserError as error:
        name, line = None, str(error)
    if name is None:
        assert line.isprintable()
    else:
        assert name.package.isidentifier()
        assert name.distribution == f"llmperf-{text}"
        assert len(text) <= LONGEST


def test_nothing_is_overwritten(tmp_path, ran):
    folder = tmp_path / "llmperf-acme"
    folder.mkdir()
    assert "is there already, and nothing is overwritten" in ran(2, "new", "vendor", "acme", "--out", tmp_path).err
    folder.rmdir()
    folder.symlink_to(tmp_path / "nowhere")
    assert call(["new", "vendor", "acme", "--out", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["llmperf-acme"]


def test_a_package_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch, ran):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in ran(2, "new", "vendor", "acme", "--out", tmp_path / "file").err

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    assert "No space left on device" in ran(2, "new", "vendor", "acme", "--out", tmp_path / "disk").err
    assert files_in(tmp_path) == ["file"]
    assert list((tmp_path / "disk").iterdir()) == []

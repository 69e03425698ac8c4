"""Plugins that are good but for one fault, installed as an installer would."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from llmperf.validation import plugin_data
from llmperf_testing.checks import leaving, watched
from llmperf_testing.running import subject_of

FOLDER = Path(__file__).parent / "broken_plugins"
sys.path.insert(0, str(FOLDER))

import forked_trials  # noqa: E402
from faults import Fault  # noqa: E402

METADATA = "Metadata-Version: 2.1\nName: llmperf-good-{role}\nVersion: 1.0\nRequires-Dist: llmperf-core\n"
ROLES = ("vendor", "framework")
SEED, SMALL = 5, ("seq_len=32", "steps=12")
REFERENCES: dict = {}
"""Losses of the reference for plans that several tests have."""


@pytest.fixture
def plugin(tmp_path, monkeypatch, on_path):
    """A function that installs a good vendor and a good framework, the one of a role with a fault, to be checked."""
    subjects = []
    on_path(tmp_path)
    # a busy machine may hold a rank up for longer than most faults last
    monkeypatch.setattr(leaving, "LEAVING_SECONDS", 4.0)
    monkeypatch.setattr(watched, "WINDOW_SECONDS", 0.3)
    (tmp_path / "jax.py").touch()  # a tensor library
    (tmp_path / "data" / "overlays").mkdir(parents=True)
    forget_installed_plugins()

    def install(role, fault=Fault(), forks=False):  # noqa: B008
        if forks:
            forked_trials.use_forks(monkeypatch, REFERENCES)
        names = {each: _install(tmp_path, each, fault if each == role else Fault()) for each in ROLES}
        options = {"settings": SMALL, "seed": SEED} if forks else {}
        subjects.append(subject_of(role, names[role], vendor=names["vendor"], **options))
        return subjects[-1]

    yield install
    for one in subjects:
        one.close()
    for role in ROLES:
        sys.modules.pop(f"good_{role}", None)
    forget_installed_plugins()


def forget_installed_plugins():
    """Drop what the validator has kept of plugins: each test installs others."""
    for kept in vars(plugin_data).values():
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


def _install(site, role, fault):
    """Write a distribution with one plugin, as an installer would; the plugin's name."""
    source = _with((FOLDER / f"good_{role}.py").read_text(), fault.puts)
    metadata = _with(METADATA.format(role=role), fault.metadata)
    name = fault.name or "good"
    info = site / f"llmperf_good_{role}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata)
    (info / "entry_points.txt").write_text(f"[llmperf.{role}.v1]\n{name} = good_{role}\n")
    (site / f"good_{role}.py").write_text(source.replace('NAME = "good"', f'NAME = "{name}"'))
    if fault.overlay:
        (site / "data" / "overlays" / "mine.toml").write_text(fault.overlay)
    return name


def _with(text, puts):
    for old, new in puts:
        assert old in text, f"nothing like {old!r} to replace"
        text = text.replace(old, new)
    return text

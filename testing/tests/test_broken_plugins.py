"""Each check of the conformance kit catches the fault that it was made for, and no other check does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from llmperf_testing.checks import training
from llmperf_testing.running import checks_of, outcome, outcomes, subject_of

sys.path.insert(0, str(Path(__file__).parent / "broken_plugins"))

from faults import FRAMEWORK, NEEDS_MORE, OWN_OPTIMISER, OWN_TOKENS, PROCESSES, TRAINING, VENDOR, Fault

FOLDER = Path(__file__).parent / "broken_plugins"
FAULTS = {"vendor": VENDOR, "framework": FRAMEWORK | TRAINING}
EVERY = [(role, name) for role, faults in FAULTS.items() for name in faults]
QUICK = [(role, name) for role, name in EVERY if name not in PROCESSES]
METADATA = "Metadata-Version: 2.1\nName: llmperf-good-{role}\nVersion: 1.0\nRequires-Dist: llmperf-core\n"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A function that installs a good vendor and a good framework, the one of a role with a fault, to be checked."""
    subjects = []
    monkeypatch.syspath_prepend(str(tmp_path))
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *([before] if before else [])]))
    monkeypatch.setattr(training, "LEAVING_SECONDS", 0.6)
    (tmp_path / "jax.py").touch()  # a tensor library
    (tmp_path / "data" / "overlays").mkdir(parents=True)

    def install(role, fault=Fault()):  # noqa: B008
        names = {each: _install(tmp_path, each, fault if each == role else Fault()) for each in FAULTS}
        subjects.append(subject_of(role, names[role], vendor=names["vendor"]))
        return subjects[-1]

    yield install
    for one in subjects:
        one.close()
    for role in FAULTS:
        sys.modules.pop(f"good_{role}", None)


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


def _failed(made):
    return {one.check: one.message for one in made if one.state == "failed"}


@pytest.mark.parametrize("role", FAULTS)
def test_every_check_has_a_fault_made_for_it(role):
    assert sorted(FAULTS[role]) == sorted(one.name for one in checks_of(role) if one.name not in NEEDS_MORE)


@pytest.mark.parametrize(("role", "name"), QUICK, ids=[" ".join(pair) for pair in QUICK])
def test_a_fault_is_caught_by_the_check_made_for_it(plugin, role, name):
    subject = plugin(role, FAULTS[role][name])
    check = next(one for one in checks_of(role) if one.name == name)
    made = outcome(subject, check)
    assert (made.state, made.message != "") == ("failed", True), made


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("role", FAULTS)
def test_good_plugins_pass_every_check(plugin, role):
    made = list(outcomes(plugin(role)))
    assert [(one.check, one.message) for one in made if one.state != "passed" and one.check not in NEEDS_MORE] == []


@pytest.mark.slow
@pytest.mark.parametrize(("role", "name"), EVERY, ids=[" ".join(pair) for pair in EVERY])
def test_a_fault_is_caught_by_no_other_check(plugin, role, name):
    fault = FAULTS[role][name]
    failed = _failed(outcomes(plugin(role, fault), fast=name not in TRAINING))
    assert set(failed) == {name, *fault.also}, failed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "cause"),
    [(OWN_TOKENS, "other weights, other tokens or another model"), (OWN_OPTIMISER, "another optimiser or other grad")],
    ids=["own tokens", "own optimiser"],
)
def test_what_is_not_the_contracts_is_caught_by_the_first_losses(plugin, fault, cause):
    failed = _failed(outcomes(plugin("framework", fault)))
    assert list(failed) == ["first-losses-are-the-contracts"]
    assert cause in failed["first-losses-are-the-contracts"]

"""A framework or a vendor that lies is found by the conformance kit, or by who verifies a run with it."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from llmperf.validation.check import validate_path
from llmperf_testing.running import checks_of, outcome
from llmperf_verify import spot
from llmperf_verify.rerun_comparison import bounds_of, losses

sys.path.insert(0, str(Path(__file__).parent / "broken_plugins"))

from faults import VENDOR, Fault
from lies import FRAMEWORKS, VENDORS

DOCUMENT = Path(__file__).parents[2] / "docs" / "trust.md"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def caught_at(subject):
    """The lowest level at which the run of a subject is caught; None if it passes all."""
    trained, folder = subject.trained, subject.folder / "run"
    if trained.result.failure is not None:
        return "run"
    found = [finding for file in validate_path(folder) for finding in file.findings]
    if any(finding.severity == "error" for finding in found):
        return "consistent"
    result = trained.result
    with patch.object(spot, "own_data", lambda result: subject.plan().spec.data):  # the validator has them too
        checked = spot.spot_check(folder, result, result.batch.global_batch, show=lambda line: None)
    assert checked.outcome != "impossible", checked.message
    if checked.outcome == "failed":
        return "spot-checked"
    curve = result.loss_curve
    honest = subject.expected(result.contract.steps).losses
    here = [replace(point, loss=loss, grad_norm=None) for point, loss in zip(curve, honest, strict=True)]
    difference = losses(curve, here, bounds_of("fp32", "fp32"))
    return None if difference.within else "rerun"


@pytest.mark.slow
def test_an_honest_framework_passes_the_kit_and_every_level(plugin):
    subject = plugin("framework", Fault(), forks=True)
    made = [outcome(subject, check) for check in checks_of("framework") if check.slow]
    assert ([one.check for one in made if one.state == "failed"], caught_at(subject)) == ([], None)


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_that_lies_is_found(name, plugin):
    lie, subject = FRAMEWORKS[name], plugin("framework", FRAMEWORKS[name].fault, forks=True)
    check = next(check for check in checks_of("framework") if check.name == lie.check)
    made = outcome(subject, check)
    assert made.state == "failed", made
    if lie.tried:
        assert caught_at(subject) == lie.level


def test_each_lie_of_a_vendor_is_a_fault_that_the_kit_finds():
    assert set(VENDORS.values()) <= set(VENDOR)


def test_the_tables_of_lies_are_those_of_the_documentation():
    text = DOCUMENT.read_text()
    rows = re.findall(r"^\| `([\w-]+-[\w-]+)` \|[^|]*\| ([\w-]+) \| ([\w-]+) \|$", text, re.MULTILINE)
    assert rows == [(name.replace("_", "-"), lie.check, lie.level or "none") for name, lie in FRAMEWORKS.items()]
    rows = re.findall(r"^\| `([\w-]+-[\w-]+)` \|[^|]*\| ([\w-]+) \|$", text, re.MULTILINE)
    assert rows == [(name.replace("_", "-"), check) for name, check in VENDORS.items()]

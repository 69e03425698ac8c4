"""Each check of the conformance kit catches the fault that it was made for, and no other check does."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from faults import FRAMEWORK, KERNELS, LIES, NEEDS_MORE, TABLES, TRAINING, VENDOR, Fault, faults
from llmperf.validation.check import validate_path
from llmperf_testing.running import checks_of, outcome, outcomes
from llmperf_verify import spot
from llmperf_verify.rerun_comparison import bounds_of, losses

FAULTS = {"vendor": VENDOR, "framework": FRAMEWORK | TRAINING}
EVERY = [(role, name) for role, faults in FAULTS.items() for name in faults]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def _failed(made):
    return {one.check: one.message for one in made if one.state == "failed"}


@pytest.mark.parametrize("role", FAULTS)
def test_every_check_has_a_fault_made_for_it(role):
    assert sorted(FAULTS[role]) == sorted(one.name for one in checks_of(role) if one.name not in NEEDS_MORE)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("role", FAULTS)
def test_good_plugins_pass_every_check(plugin, role):
    made = list(outcomes(plugin(role)))
    assert [(one.check, one.message) for one in made if one.state != "passed" and one.check not in NEEDS_MORE] == []
    unseen = "its steps compute no matrix product by torch, whose profiler names the operations"
    assert {one.message for one in made if one.check in KERNELS} <= {unseen}


@pytest.mark.slow
@pytest.mark.parametrize(("role", "name"), EVERY, ids=[" ".join(pair) for pair in EVERY])
def test_a_fault_is_caught_by_no_other_check(plugin, role, name):
    fault = FAULTS[role][name]
    if name not in TRAINING:
        failed = _failed(outcomes(plugin(role, fault), fast=True))
    else:
        subject = plugin(role, fault, forks=True)
        failed = _failed(outcome(subject, check) for check in checks_of(role) if check.slow)
    assert set(failed) == {name, *fault.also}, failed
    assert all(failed.values()), failed


@pytest.mark.slow
@pytest.mark.parametrize("own", ["tokens", "optimiser"])
def test_what_is_not_the_contracts_is_caught_by_the_losses(plugin, own):
    fault = faults("own")[own]
    subject = plugin("framework", fault, forks=True)
    failed = _failed(outcome(subject, check) for check in checks_of("framework") if check.slow)
    assert list(failed) == ["losses-are-the-contracts"]
    assert fault.caught in failed["losses-are-the-contracts"]


def _kernels(subject):
    pytest.importorskip("torch")  # once, before the ranks fork
    made = [outcome(subject, check) for check in checks_of("framework") if check.name in KERNELS]
    return {one.check: (one.state, one.message) for one in made}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_a_false_claim_about_kernels_is_caught_by_one_check(plugin, name):
    made = _kernels(plugin("framework", KERNELS[name], forks=True))
    assert {check for check, (state, _) in made.items() if state == "failed"} == {name}, made


@pytest.mark.slow
def test_true_claims_about_kernels_pass_and_others_are_skipped_with_the_reason(plugin):
    made = _kernels(plugin("framework", faults("honest")["by-torch"], forks=True))
    unseen = ("skipped", "torch's profiler does not see whether these are fused: layer_norm")
    assert made == {**dict.fromkeys(KERNELS, ("passed", "")), "fused-operations-ran-as-claimed": unseen}


DOCUMENT = Path(__file__).parents[2] / "docs" / "trust.md"


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
@pytest.mark.parametrize("name", LIES)
def test_a_framework_that_lies_is_found(name, plugin):
    lie, subject = LIES[name], plugin("framework", LIES[name], forks=True)
    check = next(check for check in checks_of("framework") if check.name == lie.check)
    made = outcome(subject, check)
    assert made.state == "failed", made
    if lie.tried:
        assert caught_at(subject) == lie.level


def test_each_lie_of_a_vendor_is_a_fault_that_the_kit_finds():
    assert set(TABLES["lying-vendor"].values()) <= set(VENDOR)


def test_the_tables_of_lies_are_those_of_the_documentation():
    text = DOCUMENT.read_text()
    rows = re.findall(r"^\| `([\w-]+-[\w-]+)` \|[^|]*\| ([\w-]+) \| ([\w-]+) \|$", text, re.MULTILINE)
    assert rows == [(name, lie.check, lie.level or "none") for name, lie in LIES.items()]
    rows = re.findall(r"^\| `([\w-]+-[\w-]+)` \|[^|]*\| ([\w-]+) \|$", text, re.MULTILINE)
    assert rows == [*TABLES["lying-vendor"].items()]

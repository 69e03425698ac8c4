"""Each forgery is caught at the level that `CATCHES` names, and at none below it."""

from inspect import getmembers, isfunction, signature

import pytest
from llmperf.files import json_files
from llmperf.runfolder.filenames import RESULT
from llmperf.types import Result
from llmperf_verify.challenges import challenge_check, issue
from llmperf_verify.signed import signature_check

from . import careful, headline, records, test_environment, test_validator_side
from .catches import CATCHES, CLAIMS
from .levels import claims_beside, first_error, spot_checked, verified_at

FORGERIES = {
    name: cheat
    for module in (headline, records, careful)
    for name, cheat in getmembers(module, isfunction)
    if cheat.__module__ == module.__name__ and name[0] != "_" and len(signature(cheat).parameters) == 1
}
OTHERS = (test_environment, test_validator_side)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def forged(name, forgery):
    """The folder or the archive that a cheater hands in."""
    if name in vars(headline):
        return forgery.seal(FORGERIES[name])
    return FORGERIES[name](forgery) or forgery.seal()


def of_level(*levels):
    return [name for name in FORGERIES if CATCHES[name] in levels]


def test_the_honest_run_passes_every_level(forgery):
    folder = forgery.seal()
    assert first_error(folder) is None
    assert verified_at(folder) == {"spot-checked": "passed", "rerun": "passed"}


@pytest.mark.parametrize("name", of_level("consistent"))
def test_the_files_do_not_agree(name, forgery):
    assert first_error(forged(name, forgery)) is not None


@pytest.mark.parametrize("name", of_level("spot-checked"))
def test_the_first_forward_pass_was_another(name, forgery):
    folder = forged(name, forgery)
    error = first_error(folder)  # LP666 sees a copied rank too, where the agent had seen the other one sooner
    assert error is None or (name, error.code) == ("ranks_duplicated", "LP666")
    assert spot_checked(folder) == "failed"


@pytest.mark.parametrize("name", [name for name in of_level("rerun") if name not in CLAIMS])
def test_the_first_steps_were_trained_otherwise(name, forgery):
    folder = forged(name, forgery)
    assert first_error(folder) is None
    assert verified_at(folder) == {"spot-checked": "passed", "rerun": "failed"}


def measured_by_a_validator(name, timed):
    """What a validator measures who has the devices: the honest run itself, or what one device does in place of two."""
    here = timed("here")
    if name == "energy_invented":
        careful.with_power(here, 120.0)
    elif name == "two_devices_sold_as_one":
        careful.two_devices_sold_as_one(here)
        here.scale_times(2)
    elif name == "cpu_sold_as_two_gpus":
        careful.cpu_sold_as_two_gpus(here)
        here.scale_times(4)
    return here.seal()


@pytest.mark.parametrize("name", [name for name in CLAIMS if name in FORGERIES])
def test_the_same_devices_measure_worse_than_is_claimed(name, timed):
    folder = forged(name, timed("submitted"))
    assert first_error(folder) is None
    assert verified_at(folder) == {"spot-checked": "passed", "rerun": "passed"}
    checks = claims_beside(folder, measured_by_a_validator(name, timed))
    assert [claim for claim, check in checks.items() if check.outcome == "better"] == [CLAIMS[name]]


def test_an_honest_run_claims_nothing_better_than_itself(timed):
    submitted, here = timed("submitted"), timed("here")
    submitted.scale_times(0.95)
    checks = claims_beside(submitted.seal(), here.seal())
    assert {claim: check.outcome for claim, check in checks.items()} == dict.fromkeys(
        ("speed", "memory", "peak"), "agrees"
    )


@pytest.mark.parametrize("name", of_level("challenged", "signed", "witnessed"))
def test_only_somebody_else_can_tell(name, forgery, tmp_path):
    folder = forged(name, forgery)
    result = json_files.load(folder / RESULT, Result)
    assert result.status == "complete"
    assert first_error(folder) is None
    assert verified_at(folder) == {"spot-checked": "passed", "rerun": "passed"}
    assert outcome_elsewhere(CATCHES[name], folder, result, tmp_path) == "failed"


def outcome_elsewhere(level, folder, result, scratch):
    """What a validator finds who has issued a challenge, or who wants a result signed by a runner."""
    if level == "challenged":
        return challenge_check(folder, result, issue(3600, None, scratch / "issued"), findings=()).outcome
    witnesses = scratch / "witnesses"
    witnesses.write_text("")
    return signature_check(folder, None, witnesses, witness=True).outcome


def test_every_cheat_is_in_the_table_of_the_documentation():
    others = {name for module in OTHERS for name in vars(module) if name.startswith("test_")}
    assert {*FORGERIES, *(name.removeprefix("test_") for name in others)} == set(CATCHES)
    assert set(CATCHES.values()) <= {"consistent", "spot-checked", "rerun", "challenged", "signed", "witnessed"}

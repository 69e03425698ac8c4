"""Each forgery is caught at the level that `CATCHES` names, and at none below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from llmperf.files import json_files
from llmperf.runfolder.filenames import RESULT
from llmperf.types import Result
from llmperf.verifying.challenges import challenge_check, issue
from llmperf.verifying.signatures import witness_check

from . import careful, headline, records, test_environment, test_validator_side
from .catches import CATCHES
from .levels import first_error, verified_at

FORGERIES = {cheat.__name__: cheat for cheat in (*headline.FORGERIES, *records.FORGERIES, *careful.FORGERIES)}
OTHERS = (test_environment, test_validator_side)
DOCUMENT = Path(__file__).parents[2] / "docs" / "trust.md"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def of_level(*levels):
    return [name for name in FORGERIES if CATCHES[name] in levels]


def test_the_honest_run_passes_every_level(forgery, rerun_once):
    folder = forgery.seal()
    assert first_error(folder) is None
    assert verified_at(folder, rerun_once) == {"spot-checked": "passed", "rerun": "passed"}


@pytest.mark.parametrize("name", of_level("consistent"))
def test_the_files_do_not_agree(name, forgery):
    assert first_error(FORGERIES[name](forgery)) is not None


@pytest.mark.parametrize("name", of_level("spot-checked"))
def test_the_first_forward_pass_was_another(name, forgery):
    folder = FORGERIES[name](forgery)
    assert first_error(folder) is None
    assert verified_at(folder)["spot-checked"] == "failed"


@pytest.mark.parametrize("name", of_level("rerun"))
def test_the_first_steps_were_trained_otherwise(name, forgery, rerun_once):
    folder = FORGERIES[name](forgery)
    assert first_error(folder) is None
    assert verified_at(folder, rerun_once) == {"spot-checked": "passed", "rerun": "failed"}


@pytest.mark.parametrize("name", of_level("challenged", "signed", "witnessed"))
def test_only_somebody_else_can_tell(name, forgery, rerun_once, tmp_path):
    folder = FORGERIES[name](forgery)
    result = json_files.load(folder / RESULT, Result)
    assert result.status == "complete"
    assert first_error(folder) is None
    assert verified_at(folder, rerun_once) == {"spot-checked": "passed", "rerun": "passed"}
    assert outcome_elsewhere(CATCHES[name], folder, result, tmp_path) == "failed"


def outcome_elsewhere(level, folder, result, scratch):
    """What a validator finds who has issued a challenge, or who wants a result signed by a runner."""
    if level == "challenged":
        return challenge_check(folder, result, issue(3600, None, scratch / "issued"), findings=()).outcome
    witnesses = scratch / "witnesses"
    witnesses.write_text("")
    return witness_check(folder, None, witnesses).outcome


def test_the_table_of_cheats_is_that_of_the_documentation():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\S+) \|[^|]*\|$", DOCUMENT.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == list(CATCHES)
    others = {name for module in OTHERS for name in vars(module) if name.startswith("test_")}
    assert {*FORGERIES, *(name.removeprefix("test_") for name in others)} == set(CATCHES)
    assert dict(rows) == {name: level or "none" for name, level in CATCHES.items()}

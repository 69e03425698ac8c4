"""The levels of verification, applied to a forged run folder within this process."""

import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.types import Result
from llmperf.types.hosts import LoadBefore, NodeConditions
from llmperf.validation.check import validate_path
from llmperf_verify import claims, rerun, spot
from llmperf_verify.reference import decoder

STEPS = 12


def first_error(path):
    """The first error of the rules; None for consistent files."""
    found = (finding for file in validate_path(path) for finding in file.findings)
    return next((finding for finding in found if finding.severity == "error"), None)


_computed: dict[bytes, Any] = {}
_token_losses = decoder.token_losses


def token_losses(model, contract, sequences, **options):
    """As `llmperf_verify.reference.decoder.token_losses`; each pass is made once."""
    key = json_files.encode((model, contract)) + sequences.tobytes()
    if key not in _computed:
        _computed[key] = _token_losses(model, contract, sequences, **options)
    return _computed[key]


class TrainedOnce:
    """As `llmperf.GivenRun`, but it trains once; later run folders are copies of the first."""

    def __init__(self, run):
        self._run, self._folder, self._result = run, Path(tempfile.mkdtemp()), None
        self.peak_again, self.close = cache(run.peak_again), lambda: None

    def train(self, folder, following):
        if self._result is None:
            self._result = self._run.train(self._folder / "run", following)
        shutil.copytree(self._folder / "run", folder)
        return self._result


_planned: dict[bytes, Any] = {}
_plan_rerun = rerun.plan_rerun


def plan_rerun(result, *arguments):
    """As `llmperf_verify.rerun.plan_rerun`; each contract is planned and trained once in each layout."""
    key = json_files.encode((result.contract, result.model, result.tuning, result.hardware.device_model))
    if key not in _planned:
        planned = _plan_rerun(result, *arguments)
        _planned[key] = replace(planned, run=TrainedOnce(planned.run))
    return _planned[key]


def spot_checked(folder):
    """The outcome of the spot check of all sequences."""
    result = json_files.load(folder / filenames.RESULT, Result)
    with patch.object(decoder, "token_losses", token_losses):
        return spot.spot_check(folder, result, sequences=result.batch.global_batch, seed=0, show=print).outcome


def verified_at(folder):
    """The outcome of the spot check of all sequences and of the rerun of all steps."""
    result = json_files.load(folder / filenames.RESULT, Result)
    with patch.object(rerun, "plan_rerun", plan_rerun):
        outcome = rerun.rerun_check(folder, result, STEPS).outcome
    return {"spot-checked": spot_checked(folder), "rerun": outcome}


IDLE = NodeConditions(node_rank=0, before=LoadBefore(other_cpu_share=0.0), other_cpu_share=0.0)


def claims_beside(folder, here):
    """The claims of a run beside the figures of another, as if that were the rerun, made on an idle machine."""
    submitted, measured = (
        rerun.measured(path, json_files.load(path / filenames.RESULT, Result), STEPS) for path in (folder, here)
    )
    metrics = replace(measured.result.metrics, other_cpu_share=0.0)
    measured = replace(measured, result=replace(measured.result, metrics=metrics, conditions=(IDLE,)))
    return {check.claim: check for check in claims.claim_checks(submitted, measured, None)}

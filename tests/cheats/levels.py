"""The levels of verification, applied to a forged run folder within this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.types import Result
from llmperf.types.host_load import LoadBefore, NodeConditions
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


_planned: dict[bytes, Any] = {}
_plan_rerun = rerun.plan_rerun


def plan_rerun(result, *arguments):
    """As `llmperf_verify.rerun.plan_rerun`; each contract is planned once in each layout."""
    key = json_files.encode((result.contract, result.model, result.tuning, result.hardware.device_model))
    if key not in _planned:
        _planned[key] = _plan_rerun(result, *arguments)
    return _planned[key]


def verified_at(folder, run_ranks=None):
    """The outcome of the spot check of all sequences and, with a function that trains, of the rerun of all steps."""
    result = json_files.load(folder / filenames.RESULT, Result)
    with patch.object(decoder, "token_losses", token_losses):
        check = spot.spot_check(folder, result, sequences=result.batch.global_batch, seed=0, show=print)
    outcomes: dict[str, str] = {"spot-checked": check.outcome}
    if run_ranks is not None:
        with patch.object(rerun, "run_ranks", run_ranks), patch.object(rerun, "plan_rerun", plan_rerun):
            outcomes["rerun"] = rerun.rerun_check(folder, result, STEPS).outcome
    return outcomes


IDLE = NodeConditions(node_rank=0, before=LoadBefore(other_cpu_share=0.0), other_cpu_share=0.0)


def claims_beside(folder, here):
    """The claims of a run beside the figures of another, as if that were the rerun, made on an idle machine."""
    submitted, measured = (
        rerun.submission(path, json_files.load(path / filenames.RESULT, Result), STEPS) for path in (folder, here)
    )
    metrics = replace(measured.result.metrics, other_cpu_share=0.0)
    measured = replace(measured, result=replace(measured.result, metrics=metrics, conditions=(IDLE,)))
    return {check.claim: check for check in claims.claim_checks(submitted, measured, None)}

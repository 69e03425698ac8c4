"""llmperf extension `verify`: options of `run` and `validate`, the rules of levels, verifications and challenges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import CommandOptions, DocumentKind, Plan, RankRecords, Rule, Trainer


@hookimpl
def llmperf_command_options(command: str) -> Iterable[CommandOptions]:
    """`--challenge` of `llmperf run`, and the checks beyond the rules of `llmperf validate`."""
    if command not in ("run", "validate"):
        return []
    from llmperf_verify.options import run_options, validate_options

    return [run_options() if command == "run" else validate_options()]


@hookimpl
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """Rules over results and the records of runs, and those of levels, which are applied by those options."""
    documents = tuple(
        f"rules.{name}" for name in ("changes", "device_figures", "experts", "loss", "mfu", "nodes", "provenance")
    )
    records = ("first_losses", "rules.measured_times", "rules.own_records")
    modules = {
        "result": documents,
        "plan": documents,
        "run": records,
        None: (*documents, *records, "rules.levels", "submissions"),
    }
    if kind not in modules:
        return []
    from importlib import import_module

    from llmperf.validation import rules_in

    return rules_in(*(import_module(f"llmperf_verify.{name}") for name in modules[kind]))


@hookimpl
def llmperf_rank_records(plan: Plan, rank: int, trainer: Trainer) -> Iterable[RankRecords]:
    """The losses of the sequences of step 1, which a spot check computes again."""
    from llmperf_verify.first_losses import first_losses

    return first_losses(plan, rank, trainer)


@hookimpl
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Verifications, challenges, archives of `llmperf pack`, their manifests, and the README that it writes."""
    from importlib import import_module

    from llmperf.types import DocumentKind
    from llmperf.validation import json_kind

    def here(module: str) -> Any:
        return import_module(f"llmperf_verify.{module}")

    return [
        json_kind(
            "verification",
            "a verification",
            "llmperf_verify.verification:Verification",
            in_place=lambda document, path, submitted: here("rules.levels").beside_verification(document, path),
            result_rows=lambda result: [here("rules.levels").verification_row(result)],
        ),
        json_kind("challenge", "a challenge", "llmperf_verify.challenges:Challenge"),
        DocumentKind(
            name="archive",
            title="an archive",
            suffixes=(".zip", ".tar.gz", ".tgz"),
            recognise=lambda *_: True,
            judge=lambda path, validator: here("submissions").judged_archive(path, validator),
            unpack=lambda path: here("submissions").unpacked_submission(path),
        ),
        json_kind(
            "manifest",
            "a manifest",
            "llmperf_verify.submissions:Manifest",
            suffixes=("manifest.json",),
            recognise=lambda path, beginning, named: (
                named and path.name == "manifest.json" and '"llmperf/manifest/' in beginning()
            ),
            in_place=lambda manifest, path, submitted: here("submissions").manifest_findings(manifest, path.parent),
        ),
        DocumentKind(
            name="written",
            title="a README of llmperf pack",
            suffixes=(".md",),
            recognise=lambda path, beginning, named: (
                not named
                and path.name == "README.md"
                and path.with_name("manifest.json").is_file()
                and here("submissions").is_written(path)
            ),
            silent=True,
        ),
    ]

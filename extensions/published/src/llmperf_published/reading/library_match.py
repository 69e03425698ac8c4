"""The model, case and data set of the library that a document means, and what a row changes in them.

Only names that the library has count; a similar name matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from llmperf import data_parallel_of
from llmperf.errors import UserError
from llmperf.types import Case, Change, Scalar

from llmperf_published.reading.markdown import normal
from llmperf_published.reading.names import software_words
from llmperf_published.reading.sections import Contents
from llmperf_published.reading.vocabulary import vocabulary
from llmperf_published.types.row import OwnFacts, PublishedBatch, PublishedHardware, PublishedLayout, Stated

if TYPE_CHECKING:
    from llmperf import Library

_SIZE = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d)?)\s?b(?![a-z])")
_DENIED = re.compile(r"\b(?:no|not|without|none|off|false|disabled|unused|n/a)\b|无|未|不|否|关闭|[:=]\s*[-/*]+\s*$")
_CONTRACT = ("seq_len", "global_batch", "precision", "dataset", "steps", "seed")
_TUNING = (
    *("micro_batch", "nodes", "devices", "tensor_parallel", "pipeline_parallel", "sharding_stage"),
    *("gradient_checkpointing", "attention"),
)


@dataclass(frozen=True, slots=True)
class Known:
    """The models and cases of the library, read once for many documents."""

    models: Mapping[str, str]
    """Squeezed name or title of a model to its name."""
    cases: tuple[Case, ...]
    own: OwnFacts | None = None
    """Facts that the user adds to the library."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Squeezed headers of columns to the titles by which a profile reads them."""

    @property
    def stated(self) -> Stated | None:
        """Statements of the importer for what a document does not say."""
        return self.own.stated if self.own else None

    def with_own(self, own: OwnFacts | None) -> Known:
        """The library with a user's own devices and models."""
        models = [entry.model for entry in own.models] if own else []
        keys = {_model_key(name): model.name for model in models for name in (model.title, model.name)}
        return replace(self, models={**keys, **self.models}, own=own)

    @classmethod
    def of(cls, library: Library) -> Known:
        """The models and cases of a library, without files that cannot be read: `llmperf models` names these."""
        titles: dict[str, str] = {}
        names: dict[str, str] = {}
        cases: list[Case] = []
        for name in library.paths("models"):
            with suppress(UserError):
                titles[_model_key(library.model(name).title)] = names[_model_key(name)] = name
        for name in library.paths("cases"):
            with suppress(UserError):
                cases.append(library.case(name))
        return cls(titles | names, tuple(cases))


def model_name(text: str | None, group: str | None, known: Known) -> str | None:
    """The library's name of a model; `group`, a heading among the rows, may add the size or name the model in full."""
    size = _SIZE.search(_words(group or ""))
    sized = f"{text} {size[0]}" if text and size and not _SIZE.search(_words(text)) else text
    names = (known.models.get(_model_key(name)) for name in (group, sized) if name)
    return next(filter(None, names), None)


def _words(text: str) -> str:
    words = re.sub(r"[_\-/]+", " ", normal(text[:200]).lower())
    return re.sub(r"(?<=\d)\s*\*\s*(?=\d)", "x", words)  # `8*7b`


def _model_key(text: str) -> str:
    return re.sub(r"[\s.():]+", "", software_words().sub(" ", _words(text)))


def framework_name(contents: Contents) -> str | None:
    """The framework plugin that strategy and software name; None if they name none, or one without a plugin."""
    software = contents.entries("software", "framework", "dependencies", "docker")
    training = [entry.text for entry in (*contents.entries("parallelism"), *software)]
    words = normal(" ".join([*training, contents.text("general", "model") or ""])).lower()
    optimisations = [normal(f"{entry.label}: {entry.text}").lower() for entry in contents.entries("optimisation")]

    for entry in vocabulary("frameworks"):
        if entry["in"] == "training":
            named = all(re.search(pattern, words) for pattern in entry["patterns"])
        else:
            words_of = rf"(?<![a-z])(?:{'|'.join(entry['patterns'])})(?![a-z])"
            named = any(re.search(words_of, line) and not _DENIED.search(line) for line in optimisations)
        if named:
            return str(entry["name"]) if "name" in entry else None
    others = [name for name, pattern in _other_frameworks().items() if pattern.search(words)]
    return others[0] if len(others) == 1 else None


def frameworks() -> set[str]:
    """Every framework plugin that a document can name here."""
    return {entry["name"] for entry in vocabulary("frameworks") if "name" in entry} | set(_other_frameworks())


@cache
def _other_frameworks() -> Mapping[str, re.Pattern[str]]:
    """Other installed framework plugins. The name `my_trainer` is also `my-trainer`, `My Trainer`."""
    listed = {entry.get("name") for entry in vocabulary("frameworks")}
    installed = sorted({entry.name for entry in entry_points(group="llmperf.framework.v1")} - listed)
    spelt = {name: r"[\s_-]*".join(map(re.escape, name.lower().split("_"))) for name in installed}
    return {name: re.compile(rf"(?<![a-z0-9]){words}(?![a-z0-9])") for name, words in spelt.items()}


def case_of(model: str | None, framework: str | None, known: Known) -> Case | None:
    """The case on this model with this framework; None if there is none or more than one.

    A case named after another one (`NAME_512`) is a published variant of it: the rows' own settings say so.
    """
    if model is None or framework is None:
        return None
    cases = [case for case in known.cases if case.contract.model == model and case.tuning.framework == framework]
    return next((case for case in cases if all(other.name.startswith(case.name) for other in cases)), None)


def dataset_name(text: str, known: Known) -> str | None:
    """The name of a data set in the cases; None if no case has it."""
    names = {case.contract.dataset for case in known.cases}
    return next((name for name in sorted(names) if _dataset_key(name) == _dataset_key(text)), None)


def _dataset_key(text: str) -> str:
    return re.sub(r"data(?:set)?|1t|[\s_\-.]", "", normal(text[:200]).lower())


def settings_by_path(
    batch: PublishedBatch,
    layout: PublishedLayout,
    hardware: PublishedHardware | None,
    free: Mapping[str, Scalar | None],
) -> dict[str, Scalar]:
    """The known settings by their path, as `--set` takes it; `free` are those of no other argument."""
    settings: dict[str, Scalar | None] = {
        "contract.seq_len": batch.seq_len,
        "contract.global_batch": batch.global_batch,
        "tuning.micro_batch": batch.micro_batch,
        "tuning.gradient_accumulation": batch.gradient_accumulation,
        "tuning.nodes": hardware.nodes if hardware else None,
        "tuning.devices": hardware.devices_per_node if hardware else None,
        "tuning.tensor_parallel": layout.tensor_parallel,
        "tuning.pipeline_parallel": layout.pipeline_parallel,
        "tuning.sharding_stage": layout.sharding_stage,
        **free,
    }
    return {path: value for path, value in settings.items() if value is not None}


def departures(
    settings: Mapping[str, Scalar], origins: Mapping[str, str], case: Case | None, defaults: Mapping[str, Scalar]
) -> tuple[Change, ...]:
    """The settings of a row that differ from its case or, without a case, from the document's defaults."""
    before: Mapping[str, Any] = defaults
    if case is not None:
        contract, tuning = case.contract, case.tuning
        accumulation = contract.global_batch // (tuning.micro_batch * data_parallel_of(tuning))
        before = {
            **{f"contract.{name}": getattr(contract, name) for name in _CONTRACT},
            **{f"tuning.{name}": getattr(tuning, name) for name in _TUNING},
            "tuning.gradient_accumulation": max(accumulation, 1),
            "tuning.fused_ops": ", ".join(tuning.fused_ops),
        }
    return tuple(
        Change(path=path, case_value=before[path], value=value, origin=origins.get(path.rpartition(".")[2], "document"))
        for path, value in sorted(settings.items())
        if path in before and before[path] != value
    )

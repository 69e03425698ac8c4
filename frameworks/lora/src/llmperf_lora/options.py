"""The options `framework.*` of this plugin, typed, with their defaults and notes on them; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf import option_problems, whole_number
from llmperf.types import Problem

if TYPE_CHECKING:
    from llmperf import OptionCheck
    from llmperf.types import RunSpec

SPLITS = ("test", "val")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `--set framework.NAME=...`."""

    base_weights: str | None = None
    """Folder of a Hugging Face checkpoint in safetensors; None: deterministic initialisation."""
    save_adapter: bool = False
    """The trained adapters are written to `adapter/` in the run folder, after measuring."""
    mmlu: str | None = None
    """Folder of MMLU in its published CSV layout; None: no MMLU."""
    mmlu_shots: int = 5
    """Examples from `dev` before each question."""
    mmlu_split: str = "test"
    """`test` or `val`."""
    mmlu_limit: int | None = None
    """At most so many questions of each subject; None: all."""
    mmlu_batch: int = 8
    """Questions in one forward pass."""

    @property
    def base_folder(self) -> Path | None:
        """`base_weights` as a path."""
        return None if self.base_weights is None else Path(self.base_weights).expanduser()

    @property
    def mmlu_folder(self) -> Path | None:
        """`mmlu` as a path."""
        return None if self.mmlu is None else Path(self.mmlu).expanduser()


def read_options(spec: RunSpec) -> Options:
    """The options of a spec that has no problems."""
    return Options(**dict(spec.framework))  # type: ignore[arg-type]


def problems_of_options(given: Mapping[str, object]) -> Iterator[Problem]:
    """Options that are not there, and values they cannot take."""
    yield from option_problems("lora", given, CHECKS)


def _folder(value: object) -> str | None:
    return None if isinstance(value, str) and value else "the path of a folder"


CHECKS: Mapping[str, Sequence[object] | OptionCheck] = {
    "base_weights": _folder,
    "save_adapter": (True, False),
    "mmlu": _folder,
    "mmlu_shots": whole_number(0),
    "mmlu_split": SPLITS,
    "mmlu_limit": whole_number(1),
    "mmlu_batch": whole_number(1),
}
"""The valid values of each option, or a check of its value."""


def notes(spec: RunSpec) -> Iterator[str]:
    """Where the base weights come from, and how MMLU is measured."""
    options = read_options(spec)
    if options.base_weights is None:
        yield (
            "base weights: deterministic initialisation from the seed, not pretrained; throughput and memory do not"
            " depend on them, losses and accuracies do"
        )
    else:
        yield f"base weights: read from {options.base_weights}"
    if options.mmlu is not None:
        share = "all questions" if options.mmlu_limit is None else f"at most {options.mmlu_limit} questions"
        yield (
            f"MMLU: {options.mmlu_split} split, {options.mmlu_shots} shots, {share} of each subject, by the likelihood"
            " of A to D; mmlu_before is measured after the training too, with the adapters switched off: the base"
            " weights are frozen, so it is the figure before the training"
        )

"""The options `framework.*` of this plugin: typed, with their defaults; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf.types import Problem

if TYPE_CHECKING:
    from llmperf.types import RunSpec

SPLITS = ("test", "val")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `--set framework.NAME=...` can be."""

    base_weights: str | None = None
    """Folder of a Hugging Face checkpoint in safetensors; None: deterministic initialisation."""
    save_adapter: bool = False
    """Whether the trained adapters are written to `adapter/` in the run folder, after measuring."""
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


def problems_of_options(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Options that are not there, and values they cannot take."""
    from llmperf_pytorch.limits import option_problems

    known: dict[str, tuple[object, ...]] = {one.name: () for one in fields(Options)}
    yield from option_problems("lora", {name: value for name, value in given.items() if name not in known}, known)
    for name, value in given.items():
        if name in known and (expected := _expected(name, value)):
            yield Problem(
                code="lora.option", where=f"framework.{name}", message=f"expected {expected}, found {value!r}"
            )


def _expected(name: str, value: Any) -> str | None:
    """What an option takes, where `value` is none of it."""
    if name in ("base_weights", "mmlu"):
        return None if isinstance(value, str) and value else "the path of a folder"
    if name == "save_adapter":
        return None if isinstance(value, bool) else "true or false"
    if name == "mmlu_split":
        return None if value in SPLITS else f"one of {', '.join(SPLITS)}"
    low = 0 if name == "mmlu_shots" else 1
    whole = isinstance(value, int) and not isinstance(value, bool)
    return None if whole and value >= low else f"a whole number of at least {low}"

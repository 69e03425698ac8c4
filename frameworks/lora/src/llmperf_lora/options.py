"""Options `framework.*` of training with adapters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

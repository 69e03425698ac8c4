"""llmperf extension `huggingface`: reads configurations of Hugging Face as models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from llmperf.types import ImportedModel


@hookimpl
def llmperf_import_model(path: Path) -> list[ImportedModel]:
    """The model of a `config.json`; UserError for any other file."""
    from llmperf_huggingface.reading import model_in

    return [model_in(path)]

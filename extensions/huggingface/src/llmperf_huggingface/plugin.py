"""llmperf extension `huggingface`: reads configurations of Hugging Face as models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from llmperf.types import CommandOptions, ImportedModel


@hookimpl
def llmperf_import_model(path: Path) -> list[ImportedModel]:
    """The model of a `config.json`; UserError for any other file."""
    from llmperf_huggingface.reading import model_in

    return [model_in(path)]


@hookimpl
def llmperf_command_options(command: str) -> Iterator[CommandOptions]:
    """`llmperf models import`."""
    if command == "models":
        from llmperf_huggingface.importing import import_options

        yield import_options()

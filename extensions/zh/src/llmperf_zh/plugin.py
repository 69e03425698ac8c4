"""llmperf extension `zh`: the Chinese texts of llmperf and of its packages, from the gettext catalogue `zh.po`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from llmperf import hookimpl

CATALOGUE = Path(__file__).parent / "zh.po"


@hookimpl
def llmperf_translations(language: str) -> list[Mapping[str, str]]:
    """Chinese texts by their English templates."""
    if language != "zh":
        return []
    from babel.messages.pofile import read_po

    with CATALOGUE.open("rb") as file:
        return [{str(message.id): str(message.string) for message in read_po(file) if message.id and message.string}]

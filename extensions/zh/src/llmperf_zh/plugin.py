"""llmperf extension `zh`: the Chinese texts of llmperf and of its packages, from the gettext catalogue `zh.po`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llmperf import hookimpl

CATALOGUE = os.path.join(os.path.dirname(__file__), "zh.po")


@hookimpl
def llmperf_translations(language: str) -> list[Mapping[str, str]]:
    """Chinese texts by their English templates."""
    if language != "zh":
        return []
    from babel.messages.pofile import read_po

    with open(CATALOGUE, "rb") as file:
        return [{str(message.id): str(message.string) for message in read_po(file) if message.id and message.string}]

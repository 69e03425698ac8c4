"""The language of a reader."""

from __future__ import annotations

import os


def language_of_locale() -> str:
    """`zh` if LC_ALL, LC_MESSAGES or LANG, the first of them that is set, names a Chinese locale; otherwise `en`."""
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := os.environ.get(name))), "")
    return "zh" if locale.lower().startswith("zh") else "en"

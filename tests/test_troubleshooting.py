"""docs/troubleshooting.md quotes messages that the code has, and rules that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text().partition("## Messages of other programs")[0]
QUOTED = re.findall(r"^\| `([^|]*)` \|", TEXT, re.MULTILINE)
MIN_CHARACTERS = 3


def texts_of_the_code():
    """Every string of the sources, with the constant parts of f-strings."""
    strings = []
    for path in [*ROOT.glob("*/src/**/*.py"), *ROOT.glob("*/*/src/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                strings.append("…".join(part.value for part in node.values if isinstance(part, ast.Constant)))
    return "\n".join(strings)


@pytest.mark.slow
def test_messages_of_the_page_are_those_of_the_code():
    code = texts_of_the_code()
    parts = {part.strip(" ;:,"): title for title in QUOTED for part in title.split("…")}
    assert len(QUOTED) >= 40
    unknown = {part: title for part, title in parts.items() if len(part) > MIN_CHARACTERS and part not in code}
    assert not unknown

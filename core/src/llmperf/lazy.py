"""Public names of packages that are imported when they are first used."""

from __future__ import annotations

import re


def lazy_names(init: str) -> dict[str, str]:
    """The names that a package imports for type checkers, `from MODULE import NAME as NAME`, with their modules.

    `init` is the path of its `__init__.py`. The package imports each name when it is first used, from that module.
    """
    with open(init, encoding="utf-8") as source:
        return {name: home for home, name in re.findall(r"^    from (\S+) import \w+ as (\w+)$", source.read(), re.M)}

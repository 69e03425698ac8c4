"""Build of Paddle in this environment, and reasons why it cannot be used. Imports no paddle."""

from __future__ import annotations

import re
from importlib import metadata
from importlib.util import find_spec

BUILDS = ("paddlepaddle", "paddlepaddle-gpu", "paddlepaddle-xpu")
"""Distributions that provide the package `paddle`."""
LEAST = (3, 3)
"""The lowest version that trains here."""
FROM_SOURCE = "0.0.0"
"""The version of a build from source that was given none."""
PAGE = "docs/drivers.md, Paddle on a GPU"


def installed_builds() -> dict[str, str]:
    """The installed builds of Paddle: distribution to version."""
    builds = {}
    for name in BUILDS:
        try:
            builds[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return builds


def build_problem() -> str | None:
    """Reason why Paddle cannot be used in this environment, in one line; None if it can.

    Builds exclude each other, so that no requirement of this distribution can name Paddle.
    """
    builds = installed_builds()
    labels = [f"{name} {version}" for name, version in builds.items()]
    if len(builds) > 1:
        return f"{' and '.join(labels)} overwrite each other's files: expected one of them in an environment ({PAGE})"
    if find_spec("paddle") is None:
        return (
            "expected Paddle 3.3 or later, found none: for a CPU, uv pip install 'paddlepaddle>=3.3' setuptools;"
            f" for an accelerator, its own build of Paddle ({PAGE})"
        )
    for label, version in zip(labels, builds.values(), strict=True):
        if version != FROM_SOURCE and _release(version) < LEAST:
            return f"expected Paddle 3.3 or later, found {label} ({PAGE})"
    return None


def _release(version: str) -> tuple[int, ...]:
    """Major and minor version; the lowest that is accepted if the version has another form."""
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return LEAST if numbers is None else tuple(map(int, numbers.groups()))

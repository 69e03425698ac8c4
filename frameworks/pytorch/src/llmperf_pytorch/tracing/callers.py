"""Functions on the stack when an operation is dispatched."""

from __future__ import annotations

import sys
from types import FrameType

OWN = ("/torch/", "/llmperf_pytorch/tracing/", "/llmperf_zero/tracing", "/unittest/", "/contextlib.py")
"""Files that are never the place of a host wait."""
FLAGS = ("overflow", "check_using_norm", "_maybe_opt_step")
"""Parts of names of functions that read whether a gradient overflowed: in a steady step none has."""
FLAG_FRAMES = 6
"""How far above a read such a function is."""


def within(functions: set[str]) -> bool:
    """Check whether one of these functions is running."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name in functions:
            return True
        frame = frame.f_back
    return False


def reads_a_flag() -> bool:
    """Check whether a function runs that reads whether a gradient overflowed."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(FLAG_FRAMES):
        if frame is None:
            return False
        if any(part in frame.f_code.co_name for part in FLAGS):
            return True
        frame = frame.f_back
    return False


def caller() -> str:
    """`package/file.py:line` of the innermost frame that is neither torch's nor of this package."""
    frame = sys._getframe(2)
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in OWN):
        frame = frame.f_back
    path = frame.f_code.co_filename.split("site-packages/")[-1].split("/src/")[-1]
    return f"{path}:{frame.f_lineno}"

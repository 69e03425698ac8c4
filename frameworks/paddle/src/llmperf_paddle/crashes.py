"""What a rank that crashes says."""

from __future__ import annotations

import faulthandler

import paddle


def show_python_stacks() -> None:
    """Have a crash in native code print the Python stack again: Paddle replaces Python's handlers by its own."""
    paddle.disable_signal_handler()
    if faulthandler.is_enabled():
        faulthandler.disable()
        faulthandler.enable()

"""NVML as `nvidia-ml-py` gives it: opened, asked, its errors in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MENDS = {
    "LIBRARY_NOT_FOUND": "install the NVIDIA driver",
    "DRIVER_NOT_LOADED": "load its kernel module: modprobe nvidia",
    "NO_PERMISSION": "give this user access to /dev/nvidia*",
    "LIB_RM_VERSION_MISMATCH": "kernel module and library are of different versions: reload the module or reboot",
    "GPU_IS_LOST": "reset it or reboot",
    "RESET_REQUIRED": "reset it or reboot",
}
"""By the name of NVML's error, without `NVML_ERROR_`."""


def open_library() -> Any:
    """NVML, initialised; whoever opens it ends it with `nvmlShutdown`. OSError, one line, where it cannot be used."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError as error:
        raise OSError(f"nvidia-ml-py cannot be imported: {error}") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise OSError(f"NVML: {in_words(pynvml, error)}") from None
    return pynvml


def in_words(library: Any, error: Any) -> str:
    """What an NVML error says and what would mend it, on one line."""
    mends = {getattr(library, f"NVML_ERROR_{name}"): mend for name, mend in MENDS.items()}
    said = " ".join(str(error).split()).removesuffix(".")
    mend = mends.get(error.value)
    return f"{said} ({mend})" if mend else said


def ask(library: Any, reading: Callable[[], T]) -> T | None:
    """A reading; None where this GPU, this driver or this user's rights do not have it.

    Raises NVML's error where the GPU itself is gone.
    """
    try:
        return reading()
    except library.NVMLError as error:
        if gone(library, error):
            raise
        return None
    except (AttributeError, UnicodeDecodeError):  # an older nvidia-ml-py, a name that is none
        return None


def gone(library: Any, error: Any) -> bool:
    """Whether an error says that a GPU no longer answers."""
    return error.value in (library.NVML_ERROR_GPU_IS_LOST, library.NVML_ERROR_RESET_REQUIRED)

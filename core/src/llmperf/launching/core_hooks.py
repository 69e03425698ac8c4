"""Facts that hold for any device and any library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import Facts


@hookimpl
def llmperf_facts() -> Facts:
    """Variables of threads, allocators, transports and loaders that any run has, and calls that wait anywhere."""
    from llmperf.types import Facts

    return Facts(
        environment_names=(
            "MKL_NUM_THREADS",
            *("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"),
            *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE"),
        ),
        environment_prefixes=("GOMP_", "KMP_", "MALLOC_", "OMP_", "UCX_"),
        waiting_frames=(" in synchronize", " in barrier", " in wait"),
        packages=("numpy",),
    )

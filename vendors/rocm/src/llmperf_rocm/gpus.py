"""AMD's three interfaces, the best first."""

from __future__ import annotations

from collections.abc import Callable

from llmperf_rocm import commands, library
from llmperf_rocm.gpu import Gpu

SOURCES: tuple[Callable[[], list[Gpu]], ...] = (library.gpus, commands.through_amd_smi, commands.through_rocm_smi)


def gpus() -> tuple[list[Gpu], Callable[[], list[Gpu]]]:
    """What the first that answers shows, and which that is; OSError, one line with each one's reason, if none does."""
    reasons = []
    for source in SOURCES:
        try:
            return source(), source
        except OSError as error:
            reasons.append(str(error))
    raise OSError(f"no AMD driver answers: {'; '.join(reasons)}")

"""The variables of what is started inside a job: those of the user, without those that the engine set for itself."""

from __future__ import annotations

from collections.abc import Mapping

from llmperf_inside.membership import OF_THE_ENGINE, Membership
from llmperf_inside.secret import NAME

THREADS = "OMP_NUM_THREADS"


def user_environment(env: Mapping[str, str], member: Membership) -> dict[str, str]:
    """The variables without the engine's and without the secret.

    torchrun sets OMP_NUM_THREADS to 1 when it starts several processes; the ranks get their own number.
    """
    kept = {name: value for name, value in env.items() if not OF_THE_ENGINE.fullmatch(name) and name != NAME}
    if (
        member.engine == "torchrun"
        and member.local_size > 1
        and "TORCHELASTIC_RUN_ID" in env
        and env.get(THREADS) == "1"
    ):
        del kept[THREADS]
    return kept

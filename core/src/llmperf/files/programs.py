"""Programs that llmperf calls, found so that files in the working directory are never executed."""

from __future__ import annotations

import os
import shutil


def program(name: str) -> str | None:
    """The path of a program in the absolute folders of $PATH; None if there is none.

    Relative folders, such as `.`, are left out: the working directory may hold what somebody else has handed in.
    """
    folders = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]
    return shutil.which(name, path=os.pathsep.join(folders))

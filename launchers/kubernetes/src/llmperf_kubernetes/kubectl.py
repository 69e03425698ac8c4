"""Calls of kubectl, which knows the user's kubeconfig, its plugins for credentials and its proxies."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from llmperf.errors import UserError

from llmperf_kubernetes.options import Options

CALL_SECONDS = 60.0
"""Longest time for a call: kubectl itself would wait without end for a server that does not answer."""


class KubectlError(Exception):
    """A call of kubectl failed; the message is what kubectl printed, in one line.

    `refused` is False if there was no answer, so that the call may have had its effect.
    """

    def __init__(self, message: str, refused: bool = True) -> None:
        super().__init__(message)
        self.refused = refused


class Kubectl:
    """kubectl with the cluster and the namespace of the options."""

    def __init__(self, options: Options) -> None:
        """UserError if kubectl is not installed."""
        program = shutil.which("kubectl")
        if program is None:
            raise UserError("launcher 'kubernetes': expected the program kubectl, found none in PATH; install it")
        words = [program]
        if options.kubeconfig is not None:
            words += ["--kubeconfig", str(Path(options.kubeconfig).expanduser())]
        if options.context is not None:
            words += ["--context", options.context]
        if options.namespace is not None:
            words += ["--namespace", options.namespace]
        self.words = tuple(words)

    def call(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output of a call; KubectlError if it fails or takes too long."""
        try:
            # In a session of its own, Ctrl-C in the terminal does not end a call that deletes the job.
            done = subprocess.run([*self.words, *arguments], input=stdin, stdin=None if stdin else subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", timeout=CALL_SECONDS,
                                  start_new_session=True, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise KubectlError(f"no answer within {CALL_SECONDS:.0f} s", refused=False) from None
        if done.returncode != 0:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and not _is_log(line)]
            raise KubectlError("; ".join(lines[-2:])[:600] or f"exit code {done.returncode}")
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """An object or a list of objects."""
        answer = json.loads(self.call("get", *arguments, "--output", "json"))
        if not isinstance(answer, dict):
            raise KubectlError(f"expected an object, found {type(answer).__name__}")
        return answer


def _is_log(line: str) -> bool:
    """Check whether a line is of kubectl's own log, such as `E1122 06:07:15.123456 4711 memcache.go:265] ...`."""
    return line[:1] in "EWI" and line[1:5].isdecimal() and line[5:6] == " "

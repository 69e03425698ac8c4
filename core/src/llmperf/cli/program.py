"""The `llmperf` program: a command in this process or, if packages of others are installed, in a child process.

No such package can then end a command in silence, hang it, or choose its exit code: the child must hand back the exit
code, and its parent names the plugin that kept it from doing so.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from llmperf.errors import Interrupted, LlmperfError, Terminated, UserError
from llmperf.files.text import printable
from llmperf.plugins.asking import VARIABLE, limit, report_to
from llmperf.plugins.installed import check_environment

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command."""
RUNNING = ("run", "peak", "profile")
"""Commands that may ask a plugin for longer than the time limit, once those that only inform have answered."""
LOOK_SECONDS = 0.5
"""Between two looks at a child that reports nothing."""
GRACE_SECONDS = 5.0
"""Time for a plugin to answer after the user has asked the command to end."""
LEAVING_SECONDS = 10.0
"""Time for what plugins have left to do at the end of the process."""
COPY_SECONDS = 0.1
"""A signal that comes again within this time was sent to the process group and passed on as well."""
YOUNG_OBJECTS = 50_000
"""Objects created before the first garbage collection; imports create many that stay."""
FAULT = 2
"""Exit code where a plugin kept the command from being done."""


def program() -> NoReturn:
    """Run the command of `sys.argv` and leave this process with its exit code."""
    gc.set_threshold(YOUNG_OBJECTS)
    try:
        limit()
    except ValueError:
        _say(f"{VARIABLE}: expected a number of seconds above 0, found {os.environ[VARIABLE]!r}")
        sys.exit(2)
    try:
        check_environment()
    except UserError as error:
        _say(str(error))
        sys.exit(error.exit_code)
    words = sys.argv[1:]
    if not hasattr(os, "fork"):
        sys.exit(_command())
    code = None
    if words and words not in (["--help"], ["-h"], ["--version"]):
        from llmperf.plugins.discovery import discover
        from llmperf.plugins.own_packages import is_own, project_packages
        from llmperf.plugins.packaged_commands import COMMANDS

        looking = project_packages()["commands"].get(words[0]) == "llmperf-inspect"
        if not all(is_own(found.distribution) for found in discover()):
            if words[0] in RUNNING:
                code = _in_child(_ask_informants) or _in_child(_command, limited=False)
            elif words[0].startswith("-") or words[0] in COMMANDS or looking:
                code = _in_child(_command)
    _leave(_exit_code(_command) if code is None else code)


def _command() -> int:
    from llmperf.cli.main import command

    return command(None)


def _ask_informants() -> int:
    """Ask the other packages' extensions what they inform of, and their vendors for devices, as a run does later."""
    from llmperf.planning.vendors import asked
    from llmperf.plugins.discovery import discover
    from llmperf.plugins.loading import Plugins, plugins_for
    from llmperf.plugins.own_packages import is_own

    others = [found for found in discover() if not is_own(found.distribution)]
    plugins = plugins_for((), others)
    faults: list[str] = []
    for hook in ("llmperf_facts", "llmperf_resources", "llmperf_document_kinds", "llmperf_reporters"):
        list(plugins.collect_sound(hook, faults))
    list(plugins.collect_sound("llmperf_rules", faults, kind=None))
    list(plugins.collect_sound("llmperf_command_options", faults, command="run"))
    for vendor in (found for found in others if found.role == "vendor"):
        with suppress(LlmperfError):
            asked(vendor, Plugins([vendor]))
    return 0  # the run itself reports what raised


def _in_child(work: Callable[[], int], limited: bool = True) -> int:
    """The exit code of a function in a child process; `FAULT` if a plugin ends it or, if `limited`, takes too long."""
    reading, writing = os.pipe()
    lifeline = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.close(lifeline[1])
        from threading import Thread

        def end_with_parent() -> None:
            os.read(lifeline[0], 1)  # returns when the parent has ended
            os._exit(FAULT)

        Thread(target=end_with_parent, daemon=True).start()
        report = report_to(writing)
        code = _exit_code(work)
        report("done", str(code))
        _leave(code)
    os.close(writing)
    os.close(lifeline[0])
    try:
        return _Watch(child, reading, limited).exit_code()
    finally:
        os.close(reading)
        os.close(lifeline[1])


def _exit_code(work: Callable[[], int]) -> int:
    """The exit code of a function, in whichever way it ends; SIGINT interrupts, SIGTERM and SIGHUP end it."""
    handled = dict.fromkeys(SIGNALS, -1.0)

    def handle(number: int, frame: object) -> None:
        last, handled[signal.Signals(number)] = handled[signal.Signals(number)], time.monotonic()
        if time.monotonic() - last > COPY_SECONDS:
            raise Interrupted if number == signal.SIGINT else Terminated(number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        return work()
    except Terminated as ended:
        _say(f"ended by {signal.Signals(ended.number).name}")
        return 128 + ended.number
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        _say(str(end.code))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1


def _leave(code: int) -> NoReturn:
    """End this process without waiting for threads that plugins have left."""
    import atexit

    try:
        _flush()
        atexit._run_exitfuncs()
        _flush()
    finally:
        os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nowhere is left to write
            stream.flush()


class _Watch:
    """The parent's view of a child: which plugin it is asking, and its exit code once it has handed that back."""

    def __init__(self, child: int, reading: int, limited: bool) -> None:
        self._child = child
        self._limited = limited
        self._reading = reading
        self._asked: list[str] = []
        """Plugin, call and time limit of the question that has no answer yet."""
        self._last = ""
        """The plugin that was asked last."""
        self._code: int | None = None
        self._waited = 0.0
        """Seconds for the present answer; time that this process was suspended does not count."""
        self._received: int | None = None

    def exit_code(self) -> int:
        """Wait for the child's end; its exit code."""

        def pass_on(number: int, frame: object) -> None:
            self._received, self._waited = number, 0.0
            with suppress(ProcessLookupError):
                os.kill(self._child, number)

        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, pass_on)
        look = min(LOOK_SECONDS, limit() / 4)
        rest, status = b"", None
        while True:
            if select.select([self._reading], [], [], 0.0 if status is not None else look)[0]:
                data = os.read(self._reading, 65536)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    words, self._waited = line.decode(errors="replace").split("\t"), 0.0
                    if words[0] == "done":
                        self._code, self._asked = int(words[1]), []
                    elif self._code is None:
                        self._asked = words if len(words) == 3 else []
                        self._last = words[0] or self._last
            elif status is not None:
                break
            elif (late := self._late(look)) is not None:
                return late
            else:
                process, ended = os.waitpid(self._child, os.WNOHANG)
                status = ended if process else None
        if status is None:
            _, status = os.waitpid(self._child, 0)
        return self._code if self._code is not None else self._without_code(status)

    def _late(self, look: float) -> int | None:
        """The exit code if the child has taken too long, and is killed."""
        self._waited += look
        seconds = float(self._asked[2]) if self._asked and self._limited else float("inf")
        if self._received is not None and self._asked:
            seconds = min(seconds, GRACE_SECONDS)
        if self._code is not None:
            seconds = LEAVING_SECONDS
        if self._waited <= seconds:
            return None
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        if self._code is not None:
            return self._code
        of = f"{self._asked[0]}: {self._asked[1]}"
        if self._received is not None:
            _say(f"{of}: gave no answer to {signal.Signals(self._received).name} in {GRACE_SECONDS:g} s")
            return 128 + self._received
        _say(f"{of}: gave no answer in {seconds:g} s, the limit that {VARIABLE} sets")
        return FAULT

    def _without_code(self, status: int) -> int:
        """The exit code of a child that has ended without handing one back."""
        how = f"the process was ended with status {os.waitstatus_to_exitcode(status)}"
        if os.WIFSIGNALED(status):
            how = f"the process was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        if self._asked:
            _say(f"{self._asked[0]}: {self._asked[1]}: {how}")
            return FAULT
        last = f"; the plugin asked last was {self._last}" if self._last else ""
        _say(f"{how} before the command was done{last}")
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status) or FAULT


def _say(message: str) -> None:
    """One line on standard error, in the form of the other errors."""
    with suppress(OSError):
        os.write(2, f"llmperf: {printable(message, '?')}\n".encode(errors="backslashreplace"))

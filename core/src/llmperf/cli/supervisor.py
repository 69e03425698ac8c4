"""Runs a command in a child process and sees it through, so that no plugin can end it in silence, hang it, or choose
its exit code. A command is done when it says so; a child that merely ends is an error that names the plugin.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Set
from contextlib import suppress
from typing import Any, NoReturn

from llmperf.errors import Interrupted, Terminated
from llmperf.files.text import printable
from llmperf.plugins.asking import (
    BACKGROUND,
    MAIN,
    VARIABLE,
    Board,
    Question,
    Tally,
    asking,
    limit,
    new_request,
    report_to,
)

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT)
LOOK_SECONDS = 0.5
"""Between two looks at what the command is doing."""
GRACE_SECONDS = 5.0
"""For a plugin to answer after the user has asked the command to end."""
LEAVING_SECONDS = 10.0
"""For what plugins registered to run at the end of the process."""
FAULT = 2
"""Exit code where a plugin kept the command from being done."""

_SI_KERNEL = 0x80
_RUN_MARK = b"LLMPERF_RUN_ID="


def supervised(arguments: list[str] | None = None) -> NoReturn:
    """Run a command to its end and leave this process with its exit code.

    A command that a plugin ended is run again without that plugin, unless it has printed or made something in the
    meantime that cannot be repeated; its exit code is then not 0. Only Linux has what this takes; elsewhere the command
    runs in this process.
    """
    try:
        seconds = limit()
    except ValueError:
        _say(f"{VARIABLE}: expected a number of seconds above 0, found {os.environ[VARIABLE]!r}")
        sys.exit(2)
    if sys.platform != "linux":
        sys.exit(_command(arguments))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, children could not be waited for
    lifeline = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*PASSED_ON, signal.SIGCHLD))
    faults: dict[str, str] = {}
    printed = Tally()
    while True:
        board = Board()
        board.keep_tally(printed)
        try:
            child = os.fork()
        except OSError as error:
            _say(f"cannot start a process: {error.strerror}")
            os._exit(FAULT)
        if child == 0:
            os.close(lifeline[1])
            _end_with(lifeline[0])
            _work(arguments, board, mask, faults)
        supervisor = _Supervisor(child, board, min(LOOK_SECONDS, seconds / 4))
        code = supervisor.exit_code(mask)
        fault = supervisor.fault
        if board.exit_code is None and board.run is not None and _without_result(board.run):
            _say(f"the run has no result; `llmperf recover {board.run}` makes it from the records")
        if not board.repeatable or fault is None or fault[0] in faults:
            os._exit(code or (FAULT if faults else 0))
        faults[fault[0]] = fault[1]
        printed = board.tally


def _end_with(lifeline: int) -> None:
    """Have the kernel kill this process when the other end of the pipe is closed, which the supervisor's end does.

    PR_SET_PDEATHSIG would do the same; reaching it takes ctypes, 4 ms.
    """
    import fcntl

    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, int(signal.SIGKILL))
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    os.set_blocking(lifeline, False)
    with suppress(BlockingIOError):
        if os.read(lifeline, 1) == b"":  # the supervisor was gone before
            os._exit(1)


def _command(arguments: list[str] | None) -> int:
    if (sys.argv[1:] if arguments is None else arguments) in (["--help"], ["-h"]):
        from llmperf.cli.help import help_text

        with suppress(OSError):  # repeated below, where errors of the output are reported
            sys.stdout.write(help_text())
            sys.stdout.flush()
            return 0
    from llmperf.cli.main import command  # by the child alone: what a process has imported makes a fork slower

    return command(arguments)


def _work(arguments: list[str] | None, board: Board, mask: Set[int], faults: dict[str, str]) -> NoReturn:
    """The child: run the command, note its exit code, and leave without waiting for anybody's threads."""
    try:
        _handle_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        report_to(board, faults)
        code = _code_of(arguments)
        _flush()
        board.finish(code)
        report_to(board)  # from here on a plugin may do with the output what it likes
        with asking("a plugin", "an exit handler", min(limit(), LEAVING_SECONDS)):
            _run_exit_handlers()
        _flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(code)


def _code_of(arguments: list[str] | None) -> int:
    try:
        return _command(arguments)
    except Terminated as ended:
        _say(f"ended by {_signal_name(ended.number)}")
        return 128 + ended.number
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        _say(str(end.code))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nowhere is left to write
            stream.flush()


def _run_exit_handlers() -> None:
    import atexit

    atexit._run_exitfuncs()


def _handle_signals() -> None:
    """SIGINT interrupts, SIGTERM and SIGHUP end the command, each cleaning up; what is ignored stays ignored."""

    def handle(number: int, frame: object) -> None:
        if new_request(number):
            raise Interrupted if number == signal.SIGINT else Terminated(number)

    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, handle)


class _Supervisor:
    """The parent: waits for the child, passes signals on, and ends a child whose plugin gives no answer."""

    def __init__(self, child: int, board: Board, look_seconds: float) -> None:
        self._child = child
        self._board = board
        self._look_seconds = look_seconds
        self._received: set[int] = set()
        self._signals: dict[int, int] = {}
        """How often the child has seen to each signal, those passed on counted as seen to."""
        self._stopped = False
        self._number = 0
        self._waited = 0.0
        self._grace_ends: float | None = None
        self.fault: tuple[str, str] | None = None
        """The plugin that kept the command from being done, and how."""

    def exit_code(self, mask: Set[int]) -> int:
        """Wait for the child's end; the exit code of the command."""
        seen = time.monotonic()
        while True:
            signalled = signal.sigtimedwait((*PASSED_ON, signal.SIGCHLD), self._look_seconds)
            now = time.monotonic()
            if signalled is not None:
                self._pass_on(signalled)
            if (status := self._ended()) is not None:
                return self._judge(status, mask)
            self._waited += min(now - seen, 2 * self._look_seconds)  # a longer time has been spent suspended
            seen = now
            if (late := self._late()) is not None:
                return self._give_up(late)

    def _pass_on(self, signalled: signal.struct_siginfo) -> None:
        number = signalled.si_signo
        if number not in PASSED_ON:  # the child's end; or, after a stop, whatever sigtimedwait left there
            return
        if number not in (signal.SIGTSTP, signal.SIGCONT):
            self._received.add(number)
            self._grace_ends = self._waited + GRACE_SECONDS
        seen_to = self._seen_to(number)
        if signalled.si_code != _SI_KERNEL and not seen_to:  # the terminal sends to the whole group
            with suppress(ProcessLookupError):
                os.kill(self._child, number)
        if self._stopped and number not in (signal.SIGTSTP, signal.SIGCONT):
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGCONT)  # stopped, it would not see the other signal
        if number == signal.SIGTSTP:
            _suspend()

    def _seen_to(self, number: int) -> bool:
        """Whether the child has had this signal too, as one of the group that it was sent to."""
        known, seen = self._signals.get(number, 0), self._board.signals(number)
        self._signals[number] = max(known + 1, seen)
        return seen > known

    def _ended(self) -> int | None:
        """The child's status, if it has ended."""
        while True:
            process, status = os.waitpid(self._child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if process == 0:
                return None
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                self._stopped = os.WIFSTOPPED(status)
                continue
            return status

    def _late(self) -> Question | None:
        """The question that has gone unanswered for too long."""
        question = self._board.question(MAIN)
        if question is None or not question.active:
            return None
        if question.number != self._number:
            self._number, self._waited = question.number, 0.0
            self._grace_ends = None if self._grace_ends is None else GRACE_SECONDS
        if self._waited > min(question.seconds, self._grace_ends or question.seconds):
            return question
        return None

    def _give_up(self, question: Question) -> int:
        for process in [self._child, *_descendants(self._child)]:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        os.waitpid(self._child, 0)
        if (code := self._board.exit_code) is not None:
            _say(f"warning: {question.plugin} left {question.what} that did not end in {question.seconds:g} s")
            return code
        if self._received:
            name = signal.Signals(min(self._received)).name
            _say(f"{question.plugin}: {question.what}: gave no answer to {name} in {GRACE_SECONDS:g} s")
            return 128 + min(self._received)
        return self._blame(question, f"gave no answer in {question.seconds:g} s, the limit that {VARIABLE} sets")

    def _judge(self, status: int, mask: Set[int]) -> int:
        """The exit code of a child that has ended, of the command if that was done."""
        if (code := self._board.exit_code) is not None:
            return code
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in self._received:
            _die_of(os.WTERMSIG(status), mask)
        questions = [self._board.question(slot) for slot in (MAIN, BACKGROUND)]
        for question in questions:
            if question is not None and question.active:
                return self._blame(question, self._how(status))
        last = f"; the plugin asked last was {questions[0].plugin}" if questions[0] else ""
        _say(f"{self._how(status)} before the command was done{last}")
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status) or FAULT

    def _blame(self, question: Question, how: str) -> int:
        message = f"{question.plugin}: {question.what}: {how}"
        self.fault = question.plugin, message
        _say(message)
        return FAULT

    def _how(self, status: int) -> str:
        if self._board.output_lost:
            return "closed or replaced the standard output of llmperf"
        if os.WIFSIGNALED(status):
            return f"the process was killed by {_signal_name(os.WTERMSIG(status))}"
        return f"the process was ended with status {os.WEXITSTATUS(status)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _suspend() -> None:
    """Stop this process, as Ctrl-Z does, until it is continued."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTSTP])
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])


def _die_of(number: int, mask: Set[int]) -> NoReturn:
    """End as the child did, so that a shell sees the same."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask - {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _descendants(ancestor: int) -> list[int]:
    """Processes that a command's plugins have started; those of a run, which end with the command, left out."""
    parents = dict(_parents())
    found, known = [], {ancestor}
    while grown := [one for one, parent in parents.items() if parent in known and one not in known]:
        known.update(grown)
        found += grown
    return [one for one in found if not _of_a_run(one)]


def _parents() -> Iterator[tuple[int, int]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", errors="replace") as file:
            yield int(name), int(file.read().rpartition(")")[2].split()[1])


def _of_a_run(process: int) -> bool:
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return _RUN_MARK in file.read()
    except OSError:
        return False


def _without_result(run: str) -> bool:
    return os.path.exists(os.path.join(run, "plan.json")) and not os.path.exists(os.path.join(run, "result.json"))


def _say(message: str) -> None:
    """One line on standard error, in the form of the other errors."""
    data: Any = f"llmperf: {printable(message, '?')}\n".encode(errors="backslashreplace")
    with suppress(OSError):
        os.write(2, data)

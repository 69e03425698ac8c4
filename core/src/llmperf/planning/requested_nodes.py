"""What a request asks of its launcher: nodes, or to take the whole command over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.cases.settings import from_command_line
from llmperf.errors import UserError
from llmperf.planning.launchers import installed_launcher
from llmperf.planning.nodes import LOCAL
from llmperf.planning.states import Request
from llmperf.types.launching import NodeRequest, Submission
from llmperf.types.spec import Case


def node_request(case: Case, request: Request) -> NodeRequest:
    """What a request asks of its launcher; UserError for an image on this machine."""
    if request.image is not None and request.launcher == LOCAL:
        raise UserError(f"--container-image {request.image}: launcher {LOCAL!r} starts no containers; expected "
                        "another --launcher, such as ssh with --hosts localhost")  # fmt: skip
    return NodeRequest(
        nodes=_wanted_nodes(case, request),
        devices=request.devices,
        hosts=request.hosts,
        options=request.launcher_options,
        image=request.image,
    )


def nodes_wanted(request: Request) -> int:
    """The number of nodes that a request asks its launcher for."""
    return _wanted_nodes(request.read_case(), request)


def handed_over(
    request: Request, command: Sequence[str], out: Path, say: Callable[[str], None], tasks: int = 1
) -> tuple[Request, int | None]:
    """The exit code of a command that the request's launcher has had run elsewhere, or None; the request goes on then.

    `command` has the words after `llmperf`. UserError if there is no such launcher, or it refuses.
    """
    if request.launcher == LOCAL:
        return request, None
    launcher = request.opened or installed_launcher(request.launcher, request.vendor)
    return replace(request, opened=launcher), launcher.hand_over(_submission(request, command, out, tasks), say)


def preview(request: Request, command: Sequence[str], out: Path, tasks: int = 1) -> str | None:
    """What the request's launcher would submit to its engine; None if nothing."""
    if request.launcher == LOCAL:
        return None
    launcher = request.opened or installed_launcher(request.launcher, request.vendor)
    return launcher.preview(_submission(request, command, out, tasks))


def _submission(request: Request, command: Sequence[str], out: Path, tasks: int) -> Submission:
    case = request.read_case()
    wanted = node_request(case, request)
    return Submission(command=tuple(command), request=wanted, out=str(out.absolute()), tasks=tasks)


def _wanted_nodes(case: Case, request: Request) -> int:
    """The number of nodes: by `--set` or `--hosts`, otherwise as the case says."""
    settings = from_command_line(request.settings)
    value = next((setting.value for setting in reversed(settings) if setting.path == "tuning.nodes"), None)
    if isinstance(value, int) and value > 0:
        return value
    return len(request.hosts) or case.tuning.nodes

"""Replacements for what Paddle's gloo lacks, so that fleet trains on a CPU as on accelerators.

It takes effect only on a CPU place, and only with the version of Paddle that it was written for: another version may
have closed these gaps or have others. This module and `cpu_fleet` use Paddle's internals; the rest of this package
uses Paddle as production does. Paddle's stores listen on all interfaces, and take no address: on one node they are kept
to the loopback interface.

1. Groups collide: each meets under the same keys of one store. Here each has a store of its own.
2. Point-to-point messages hang in groups of more than two ranks. Here each pair of ranks has a group of two.
3. There is no reduce-scatter and no collective "on the calculation stream". Here they are made of what there is.
4. fp16 is summed as integers, in silence. Here it is refused.
5. A rank that waits for another gives up after 30 s, and looks like the failed rank. Here it keeps waiting.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from contextlib import suppress
from typing import Any

import paddle
from llmperf.errors import PluginError
from paddle.base import core

from llmperf_paddle.cpu_fleet import replace_device_checks, replace_operations
from llmperf_paddle.limits import ADAPTED, GLOO_SECONDS

SO_BINDTODEVICE = 25
"""Linux's constant; Python names it since 3.14."""


def choose_interface() -> None:
    """Have gloo listen on the loopback interface, unless the user has chosen one; before the first group is made."""
    if (name := interface()) is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def check_port() -> None:
    """OSError on the first rank where the port of the common store is in use: Paddle would abort without a word of it,
    and the controller starts the ranks again with another port only if this is reported.
    """
    if os.environ["RANK"] == "0":
        socket.create_server(("", int(os.environ["MASTER_PORT"]))).close()


def confine_stores() -> None:
    """Take connections through the loopback interface alone, on every socket of this process that listens everywhere.

    Best effort: Linux allows it to anyone since 5.7, before that to root.
    """
    name = interface()
    if name is None or not os.path.isdir("/proc/self/fd"):
        return
    for entry in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor that listed the folder is closed by now
            if stat.S_ISSOCK(os.fstat(int(entry)).st_mode):
                with socket.socket(fileno=os.dup(int(entry))) as one:
                    _confine(one, name)


def _confine(one: socket.socket, name: str) -> None:
    if one.family not in (socket.AF_INET, socket.AF_INET6) or one.getsockname()[0] not in ("0.0.0.0", "::"):
        return
    if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        one.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, name.encode() + b"\0")


def interface() -> str | None:
    """Name of the loopback interface; None where it has neither of its usual names."""
    names = {name for _, name in socket.if_nameindex()}
    return next((name for name in ("lo", "lo0") if name in names), None)


STORE_SECONDS = 900
TRIES = 20
"""For a free port."""
PAIR_GROUPS = 1_000_000
"""Numbers of the groups of pairs begin here."""

_keep: list[Any] = []
_origins: dict[int, tuple[Any, int, dict[int, Any]]] = {}


class Done:
    """A task that has ended when it is handed back."""

    def wait(self, *_: object) -> bool:
        """At once."""
        return True

    is_completed = wait

    def synchronize(self) -> None:
        """At once."""


def active() -> bool:
    """Check whether this rank computes on a CPU."""
    return bool(paddle.get_device() == "cpu")


def install(*, needed: bool, stall_seconds: float) -> None:
    """Put everything in place, once for each process; PluginError with another version of Paddle where it is needed.

    `stall_seconds`: after so long without a step the controller looks for the rank that hangs.
    """
    if not active() or installed():
        return
    if paddle.__version__ == ADAPTED:
        _keep.append(stall_seconds)
        _patience(core.ProcessGroupGloo, stall_seconds)
        _collectives(core.ProcessGroupGloo)
        import paddle.distributed.collective as collective
        import paddle.distributed.parallel as parallel

        plain = collective._new_process_group_impl

        def new_group(
            backend: str,
            store: Any,
            rank: int,
            world_size: int,
            group_name: str,
            *rest: Any,
            group_id: int = 0,
            **named: Any,
        ) -> Any:
            if backend != "gloo":
                return plain(backend, store, rank, world_size, group_name, *rest, group_id=group_id, **named)
            return _make_group(store, rank, world_size, rest[1] if len(rest) > 1 else group_id)

        collective._new_process_group_impl = new_group
        parallel._new_process_group_impl = new_group
        plain_send, plain_receive = core.ProcessGroupGloo.send, core.ProcessGroupGloo.recv

        def send(group: Any, tensor: Any, peer: int, sync_op: bool = True) -> Any:
            pair, other = _pair(group, peer)
            return plain_send(pair, tensor, other, sync_op)

        def receive(group: Any, tensor: Any, peer: int, sync_op: bool = True) -> Any:
            pair, other = _pair(group, peer)
            return plain_receive(pair, tensor, other, sync_op)

        core.ProcessGroupGloo.send, core.ProcessGroupGloo.recv = send, receive
        replace_operations()
        replace_device_checks()
    elif needed:
        raise PluginError(f"on a CPU this layout needs paddlepaddle {ADAPTED}, found {paddle.__version__}")


def installed() -> bool:
    """Check whether Paddle's gloo is mended in this process."""
    return bool(_keep)


def averages_in_step() -> bool:
    """Check whether `average_in_step` takes the place of `DataParallel`."""
    return installed()


def _patience(gloo: Any, stall_seconds: float) -> None:
    """Keep a rank that has waited in vain from being taken for the one that fails.

    Gloo gives up after a fixed time, mostly before the controller looks for the rank that hangs. That one is found
    only while the others still wait: so wait on, for as long as the controller may take.
    """
    for name in (
        "all_reduce",
        "broadcast",
        "all_gather",
        "all_gather_into_tensor",
        "send",
        "recv",
        "reduce",
        "barrier",
    ):
        setattr(gloo, name, _patient(getattr(gloo, name), stall_seconds))


def _patient(plain: Any, stall_seconds: float) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return plain(*arguments, **named)
        except RuntimeError as error:
            if "timeout" in str(error).lower():
                # sleep until the controller ends this rank; its stack then shows that it waits
                print(f"gloo gave up after {GLOO_SECONDS} s without another rank: {error}", flush=True)
                time.sleep(stall_seconds)
            raise

    return call


def _collectives(gloo: Any) -> None:
    plain, total = gloo.all_reduce, core.ReduceOp.SUM

    def all_reduce(group: Any, tensor: Any, op: Any = total, sync_op: bool = True) -> Any:
        if tensor.dtype == paddle.float16:
            raise PluginError("Paddle's gloo sums fp16 as integers; on a CPU use fp32")
        return plain(group, tensor, op, sync_op)

    def reduce_scatter(group: Any, out: Any, tensor: Any, op: Any = total, sync_op: bool = True) -> Done:
        whole = tensor.clone().detach()
        all_reduce(group, whole, op, True).wait()
        rows, rank = out.shape[0], group.rank()
        out[:] = whole[rank * rows : (rank + 1) * rows].reshape(out.shape)
        return Done()

    gloo.all_reduce = all_reduce
    gloo.all_reduce_on_calc_stream = lambda group, tensor, op=total: all_reduce(group, tensor, op, True).wait()
    gloo.broadcast_on_calc_stream = lambda group, tensor, source: group.broadcast(tensor, source, True).wait()
    gloo.send_on_calc_stream = lambda group, tensor, peer: group.send(tensor, peer, True).wait()
    gloo.recv_on_calc_stream = lambda group, tensor, peer: group.recv(tensor, peer, True).wait()
    gloo.all_gather_into_tensor_on_calc_stream = lambda group, out, tensor: group.all_gather_into_tensor(
        out, tensor, True
    ).wait()
    gloo.reduce_scatter_tensor = reduce_scatter
    gloo.reduce_scatter_tensor_on_calc_stream = reduce_scatter
    gloo._start_coalescing = lambda group: None
    gloo._end_coalescing = lambda group, *_: None


def _make_group(store: Any, rank: int, size: int, number: int) -> Any:
    own = _own_store(store, f"llmperf/gloo/{number}", rank)
    group = core.ProcessGroupGloo.create(own, rank, size, number)
    _keep.extend((own, group))
    _origins[id(group)] = (store, number, {})
    return group


def _own_store(store: Any, key: str, rank: int) -> Any:
    """A store of one group on its first rank's host, whose address the others find in the common store."""
    if rank > 0:
        host, _, number = bytes(store.get(key)).decode().rpartition(":")
        return core.TCPStore(host, int(number), False, 1, STORE_SECONDS)
    host = _own_address()
    for attempt in range(TRIES):
        port = _free_port()
        try:
            served = core.TCPStore(host, port, True, 1, STORE_SECONDS)  # 1: it waits for no other
        except (RuntimeError, ValueError):  # another process has taken the port
            if attempt == TRIES - 1:
                raise
            continue
        if host.startswith("127."):
            confine_stores()
        store.set(key, f"{host}:{port}")
        return served
    raise AssertionError


def _own_address() -> str:
    """This host's address towards the first rank; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
        towards.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        return str(towards.getsockname()[0])


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


def _pair(group: Any, peer: int) -> tuple[Any, int]:
    """The group of two of this rank and `peer`, made when first used, and the peer's rank in it."""
    if group.size() <= 2 or id(group) not in _origins:
        return group, peer
    store, number, pairs = _origins[id(group)]
    low, high = sorted((group.rank(), peer))
    mine = 0 if group.rank() == low else 1
    if peer not in pairs:
        pairs[peer] = _make_group(store, mine, 2, PAIR_GROUPS + number * 4096 + low * 64 + high)
    return pairs[peer], 1 - mine


def average_in_step(optimizer: Any) -> Any:
    """Have the optimiser's step average the gradients of plain replicas, as it does for those of other layouts.

    `DataParallel` would, while the backward pass runs, from native code: a time-out there aborts the process.
    """
    optimizer._dp_enable = True
    return optimizer

"""Containers on the nodes, for launchers that do not start them: the table `[containers]` and the engines' commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from llmperf.errors import UserError
from llmperf.planning.environment_report import this_interpreter
from llmperf.types.launching import NodeCommand

WHERE = "llmperf.toml: containers"
IMAGE = re.compile(r"[A-Za-z0-9./~][A-Za-z0-9._/:@+~-]{0,499}")
"""An image by name, digest or path: never an option of the engine."""
DEVICE = re.compile(r"/dev/[A-Za-z0-9._/-]+|[a-z0-9.-]+/[a-z0-9.-]+=[A-Za-z0-9.:_-]+")
"""A file or folder below /dev, or a name of the Container Device Interface."""
ALL_GPUS = "all"
GPU_LIBRARIES = re.compile(r"[a-z]{2,6}")
"""The name of an engine's option that brings the libraries of a driver into the container."""
MOUNT = re.compile(r"/[^:,\s]+:/[^:,\s]+(:r[ow])?")
PYTHON = re.compile(r"[A-Za-z0-9._/+][A-Za-z0-9._/+-]*")
STRAY_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
"""Variables of the host that would tie the image's interpreter to the host's packages."""

Engine = Literal["apptainer", "docker", "podman"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """`[containers]`: how `--container-image` is started by launchers that start no containers themselves."""

    engine: Engine | None = None
    """The program on the nodes that starts them."""
    mounts: tuple[str, ...] = ()
    """Folders of the node, such as `/data:/data:ro`."""
    python: str = "python3"
    """The interpreter in the image: its path, or a name on the image's `PATH`. `--python` is stronger."""
    devices: tuple[str, ...] = ()
    """Devices for docker and podman: paths below /dev, or names of the Container Device Interface."""
    gpus: str | None = None
    """For docker `all`; for apptainer the name of its option for the driver's libraries."""


NO_CONTAINERS = Containers()
"""Default without that table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """An image, and how to start it on a node."""

    image: str
    """Image as the engine takes it."""
    table: Containers
    """The user's table."""

    def wrapped(self, command: NodeCommand) -> NodeCommand:
        """The command as one that runs in a new container; it must begin with an interpreter.

        Variables are passed on by name only: no value is an argument, which other users could read, and the commands
        of different nodes differ in their variables only.
        """
        python, *rest = command.argv
        if python == this_interpreter():
            python = self.table.python
        if self.table.engine == "apptainer":
            return replace(command, argv=(*self._apptainer(), python, *rest))
        return replace(command, argv=(*self._oci(command.env), "--entrypoint", python, self.image, *rest))

    def _apptainer(self) -> tuple[str, ...]:
        """Apptainer passes the variables, standard streams, signals and devices of the host on without being told.

        Kept out are packages of the host and of the user's home folder, which the container sees.
        """
        gpus = () if self.table.gpus is None else (f"--{self.table.gpus}",)
        binds = (word for mount in self.table.mounts for word in ("--bind", mount))
        unset = (word for name in STRAY_VARIABLES for word in ("-u", name))
        return ("apptainer", "exec", *gpus, *binds, self.image, "env", *unset, "PYTHONNOUSERSITE=1")

    def _oci(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Options that docker and podman share, with limits and devices.

        Everything in the container ends with its first process, which gets the signals; `--init` puts a program before
        it that buries the dead. Images are not pulled: that would take longer than nodes have to answer.
        """
        engine = str(self.table.engine)
        limits = ("--ulimit", "memlock=-1:-1") if engine == "docker" else ()  # podman passes on the user's own
        gpus = () if self.table.gpus is None else ("--gpus", self.table.gpus)
        devices = (word for device in self.table.devices for word in ("--device", device))
        mounts = (word for mount in self.table.mounts for word in ("--volume", mount))
        variables = (word for name in sorted(env) for word in ("--env", name))
        shared = ("--rm", "--interactive", "--init", "--pull", "never", "--network", "host", "--ipc", "host")
        return (engine, "run", *shared, *limits, *gpus, *devices, *mounts, *variables)


def container_of(image: str, table: Containers, launcher: str) -> Container:
    """The container of an image; UserError if the image or a value of the table cannot be used.

    `launcher` is the launcher that starts no containers itself.
    """
    if not IMAGE.fullmatch(image):
        raise UserError(f"--container-image: expected the name or path of an image, found {image!r:.200}")
    if table.engine is None:
        raise UserError(f"--container-image {image}: launcher {launcher!r} starts no containers itself; expected "
                        f'engine = "apptainer", "docker" or "podman" in [containers] of llmperf.toml')  # fmt: skip
    for mount in table.mounts:
        if not MOUNT.fullmatch(mount) or ".." in mount:
            raise UserError(f"{WHERE}.mounts: expected paths such as /data:/data:ro, found {mount!r}")
    if not PYTHON.fullmatch(table.python):
        raise UserError(f"{WHERE}.python: expected the interpreter in the image, found {table.python!r}")
    _check_devices(table)
    return Container(image=image, table=table)


def _check_devices(table: Containers) -> None:
    for device in table.devices:
        if not DEVICE.fullmatch(device) or ".." in device:
            raise UserError(f"{WHERE}.devices: expected a path below /dev or a name of the Container Device Interface, "
                            f"found {device!r}")  # fmt: skip
    if table.devices and table.engine == "apptainer":
        raise UserError(f"{WHERE}.devices: apptainer shows a container all devices; expected gpus instead")
    if table.gpus is None:
        return
    if table.engine == "podman":
        raise UserError(f"{WHERE}.gpus: podman takes GPUs as devices; expected devices = [...] instead")
    if table.engine == "docker" and table.gpus != ALL_GPUS:
        raise UserError(f"{WHERE}.gpus: expected {ALL_GPUS!r} for docker, found {table.gpus!r}")
    if table.engine == "apptainer" and not GPU_LIBRARIES.fullmatch(table.gpus):
        raise UserError(f"{WHERE}.gpus: expected the name of an option of apptainer for the libraries of a driver, "
                        f"found {table.gpus!r}")  # fmt: skip

"""Containers on the nodes, for launchers that do not start them: the commands of the engines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmperf.errors import UserError
from llmperf.launching import this_interpreter
from llmperf.types import Launcher, NodeCommand
from llmperf.types.remote import Container

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


class InContainers:
    """A launcher that gets commands which run in containers on its nodes."""

    def __init__(self, launcher: Launcher, container: Container) -> None:
        """UserError if the image or a value of the table cannot be used."""
        self.name, self.nodes = launcher.name, launcher.nodes
        self._launcher, self._image, self._table = launcher, container.image, container.table
        _check(container, launcher.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """The launcher's commands for these in containers."""
        return self._launcher.commands([self.wrapped(node) for node in nodes])

    def wrapped(self, command: NodeCommand) -> NodeCommand:
        """The command in a new container; variables are passed on by name, as other users could read values."""
        python, *rest = command.argv
        if python == this_interpreter():
            python = self._table.python
        if self._table.engine == "apptainer":
            return replace(command, argv=(*self._apptainer(), python, *rest))
        return replace(command, argv=(*self._oci(command.env), "--entrypoint", python, self._image, *rest))

    def _apptainer(self) -> tuple[str, ...]:
        """Apptainer passes all on by itself; packages of the host and of the user's home folder are kept out."""
        gpus = () if self._table.gpus is None else (f"--{self._table.gpus}",)
        binds = (word for mount in self._table.mounts for word in ("--bind", mount))
        unset = (word for name in STRAY_VARIABLES for word in ("-u", name))
        return ("apptainer", "exec", *gpus, *binds, self._image, "env", *unset, "PYTHONNOUSERSITE=1")

    def _oci(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Options that docker and podman share: limits, devices, `--init` for orphans, no pulling of images."""
        engine = str(self._table.engine)
        limits = ("--ulimit", "memlock=-1:-1") if engine == "docker" else ()  # podman passes on the user's own
        gpus = () if self._table.gpus is None else ("--gpus", self._table.gpus)
        devices = (word for device in self._table.devices for word in ("--device", device))
        mounts = (word for mount in self._table.mounts for word in ("--volume", mount))
        variables = (word for name in sorted(env) for word in ("--env", name))
        shared = ("--rm", "--interactive", "--init", "--pull", "never", "--network", "host", "--ipc", "host")
        return (engine, "run", *shared, *limits, *gpus, *devices, *mounts, *variables)


def _check(container: Container, launcher: str) -> None:
    image, table = container.image, container.table
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

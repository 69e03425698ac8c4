"""Which CUDA and which GPUs the installed torch and Paddle were built for: read from their files, never imported."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MAX_BYTES = 2**16
"""Of a version file."""
TORCH_VERSION = re.compile(r"^__version__ *= *'([^'\n]{1,60})'", re.MULTILINE)
TORCH_CUDA = re.compile(r"^cuda\b[^=\n]*= *(?:'([^'\n]{1,20})'|None) *$", re.MULTILINE)
PADDLE_VERSION = re.compile(r"^full_version *= *'([^'\n]{1,60})'", re.MULTILINE)
PADDLE_CUDA = re.compile(r"^cuda_version *= *'([^'\n]{1,20})'", re.MULTILINE)
ARCHITECTURES = re.compile(rb"(?:sm|compute)_\d{2,3}[af]?(?: (?:sm|compute)_\d{2,3}[af]?){1,40}")
"""The text behind `torch.cuda.get_arch_list()`, as it stands in torch's library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One installed tensor library."""

    runtime: str
    """`torch` or `paddle`."""
    version: str
    """As it names itself."""
    cuda: str | None
    """The CUDA that it was built for; None for a build without."""
    architectures: tuple[str, ...] = ()
    """Such as `sm_80`; empty where they cannot be told."""

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.runtime} {self.version}"


def installed_builds() -> list[Build]:
    """Those of torch and Paddle that are in this environment and whose version files can be read."""
    found = (_torch(), _paddle())
    return [build for build in found if build is not None]


def _torch() -> Build | None:
    folder = _folder("torch")
    text = None if folder is None else _text(folder / "version.py")
    if folder is None or text is None:
        return None
    version, cuda = TORCH_VERSION.search(text), TORCH_CUDA.search(text)
    if version is None or cuda is None:
        return None
    library = folder / "lib" / "libtorch_python.so"
    return Build(runtime="torch", version=version[1], cuda=cuda[1], architectures=_architectures(library))


def _paddle() -> Build | None:
    folder = _folder("paddle")
    text = None if folder is None else _text(folder / "version" / "__init__.py")
    if text is None:
        return None
    version, cuda = PADDLE_VERSION.search(text), PADDLE_CUDA.search(text)
    if version is None or cuda is None:
        return None
    return Build(runtime="paddle", version=version[1], cuda=None if cuda[1] == "False" else cuda[1])


def _folder(package: str) -> Path | None:
    """Where an installed package is; None without it. Of a top-level package nothing is imported."""
    found = find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except OSError:
        return None


def _architectures(library: Path) -> tuple[str, ...]:
    """The first list of architectures in a library; empty where there is none, as in a build for CPUs."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place = content.find(b"sm_")
            while place >= 0:
                if found := ARCHITECTURES.match(content, place):
                    return tuple(found[0].decode().split())
                place = content.find(b"sm_", place + 1)
    except (OSError, ValueError):  # not there, empty
        pass
    return ()

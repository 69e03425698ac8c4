"""A user's Megatron-DeepSpeed checkout: where it is, whether it is one, which one. Only read, never written to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

OPTION = "megatron_home"
VARIABLE = "MEGATRON_DEEPSPEED_HOME"
WHERE = f"framework.{OPTION}"

SCRIPT = "pretrain_gpt.py"
ARGUMENTS = "megatron/arguments.py"
PARTS = (SCRIPT, ARGUMENTS, "megatron/training.py", "megatron/data/gpt_dataset.py")
"""Required files."""
SOURCES = (SCRIPT, "megatron", "tools/retro")
"""Source files that a run imports."""
FROM_DEEPSPEED = ("--deepspeed", "--deepspeed_config")
"""Options that DeepSpeed adds to those of `ARGUMENTS`."""


def chosen_home(options: Mapping[str, object]) -> Path | None:
    """The folder that an option or the environment names, absolute; None where neither does."""
    named = options.get(OPTION) or os.environ.get(VARIABLE)
    return Path(os.path.abspath(Path(str(named)).expanduser())) if named else None


def home_problem(home: Path | None) -> str | None:
    """Reason why a folder is not a usable checkout; None if it is one."""
    if home is None:
        return (
            f"engine 'checkout' drives your checkout of Megatron-DeepSpeed: --set {WHERE}=FOLDER or {VARIABLE}=FOLDER;"
            " without one the nearest is --set framework.engine=builtin"
        )
    if not home.is_dir():
        return f"expected a checkout of Megatron-DeepSpeed, found no folder {home}"
    missing = [part for part in PARTS if not (home / part).is_file()]
    if missing:
        return f"expected a checkout of Megatron-DeepSpeed, found {home} without {', '.join(missing)}"
    return None


def missing_options(home: Path, argv: Iterable[str]) -> list[str]:
    """The options among `argv` that the checkout's own `arguments.py` does not have."""
    text = (home / ARGUMENTS).read_text(encoding="utf-8", errors="replace")
    asked = dict.fromkeys(word for word in argv if word.startswith("--") and word not in FROM_DEEPSPEED)
    return [word for word in asked if f"'{word}'" not in text and f'"{word}"' not in text]


def describe(home: Path) -> str:
    """Identity of the checkout, for the result: its commit, and a hash that changes with local edits."""
    commit = commit_of(home)
    return (
        f"trained by a checkout of Megatron-DeepSpeed, {f'commit {commit}' if commit else 'commit unknown'};"
        f" SHA-256 over its Python files: {source_hash(home)}"
    )


def commit_of(home: Path) -> str | None:
    """The commit that is checked out, read from git's own files; None where they do not tell."""
    try:
        folder = _git_folder(home)
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return _hexadecimal(head)
        name = head.removeprefix("ref: ")
        shared = folder / (folder / "commondir").read_text().strip() if (folder / "commondir").exists() else folder
        if (shared / name).is_file():
            return _hexadecimal((shared / name).read_text().strip())
        packed = (shared / "packed-refs").read_text().splitlines()
        return next((_hexadecimal(line.split()[0]) for line in packed if line.endswith(f" {name}")), None)
    except (OSError, UnicodeDecodeError):
        return None


def _git_folder(home: Path) -> Path:
    git = home / ".git"
    return home / git.read_text().strip().removeprefix("gitdir: ") if git.is_file() else git


def _hexadecimal(text: str) -> str | None:
    return text if 40 <= len(text) <= 64 and set(text) <= set("0123456789abcdef") else None


def source_hash(home: Path) -> str:
    """SHA-256 over the names and contents of the Python files that a run may import."""
    digest = hashlib.sha256()
    for path in sorted(_sources(home)):
        digest.update(path.relative_to(home).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(home: Path) -> Iterable[Path]:
    for name in SOURCES:
        path = home / name
        yield from [path] if path.is_file() else path.rglob("*.py")

"""A user's Megatron-DeepSpeed checkout: where it is, whether it is one, which one, its known defects. Only read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from llmperf import setting_problem
from llmperf.types import Layout, Problem, RunSpec

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
        git = home / ".git"
        folder = home / git.read_text().strip().removeprefix("gitdir: ") if git.is_file() else git
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


THIRDS = ("megatron/model/transformer.py", "mixed_x_layer.shape[-1] // 3")
"""Queries, keys and values are taken to be equally wide (since commit 676a482c)."""

ROTARY_LIST = ("megatron/model/rotary_pos_embedding.py", "rope = [base.cos(), base.sin()]")
"""The rotary embedding gives cosines and sines in a list (since commit 676a482c)."""

PIPELINE_TENSOR = ("megatron/utils.py", "(seq_length).to(")
"""The pipeline takes that list for a tensor, and fails (upstream issue 456)."""

ANGLE_TWICE = ("megatron/model/transformer.py", "query_layer = apply_rotary_pos_emb(query_layer, q_pos_emb)")
"""Attention takes the cosines for angles, and rotates by these."""

NEAREST = "the nearest that does is commit 6acc370a, or --set framework.engine=builtin"

WRONG_ANGLES = (
    "this checkout rotates queries and keys by the cosine of the angle, not by the angle (since commit 676a482c):"
    " the same work, but another model, whose losses are not comparable"
)


def defect_problems(home: Path, spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    """Defects of this checkout that affect this run."""
    if spec.model.kv_heads != spec.model.attention_heads and _has(home, THIRDS):
        message = f"this checkout trains no grouped keys: expected {spec.model.attention_heads} key/value heads,"
        message = f"{message} {spec.model.name} has {spec.model.kv_heads}; {NEAREST}"
        yield Problem(code="megatron_deepspeed.checkout", where="model.kv_heads", message=message)
    if layout.pipeline_parallel > 1 and _has(home, ROTARY_LIST) and _has(home, PIPELINE_TENSOR):
        message = f"this checkout has no rotary positions in a pipeline: expected 1, found {layout.pipeline_parallel}"
        yield setting_problem("megatron_deepspeed", "tuning.pipeline_parallel", f"{message}; {NEAREST}")


def defect_notes(home: Path) -> tuple[str, ...]:
    """Notes for the result on what this checkout computes wrongly."""
    return (WRONG_ANGLES,) if _has(home, ROTARY_LIST) and _has(home, ANGLE_TWICE) else ()


def _has(home: Path, mark: tuple[str, str]) -> bool:
    name, text = mark
    try:
        return text in (home / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False

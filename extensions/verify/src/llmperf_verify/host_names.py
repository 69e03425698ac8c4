"""Names and addresses of hosts in a run: a submission has `node-000` and `address-000` in their place."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from llmperf import decode, encode_pretty
from llmperf.types import Plan, Result

from llmperf_verify.documents import PLAN, RESULT
from llmperf_verify.submissions import REPORT

PUBLIC = re.compile(r"localhost|127\..*|::1")
"""Names that every machine gives itself."""
TEXTS = frozenset({"host", "address", "message", "traceback", "log_tail", "notes", "problems", "env", "environment"})
"""Fields that may hold names of hosts, also below them. Names may be words, such as `cpu`: other fields are kept."""
DOCUMENTS = (PLAN, "nodes.json", "ending.json", RESULT)

Hide = Callable[[str], str]


def without_host_names(files: Mapping[str, bytes], report: Callable[[Result], str]) -> dict[str, bytes]:
    """The files of one run, by path in its folder, without names of its hosts; the result has the new hashes.

    `report` renders the report of a result anew. Files of a run on one machine are returned as they are.
    """
    plan = decode(files[PLAN], Plan, PLAN) if PLAN in files else None
    names = {} if plan is None else replacements(plan)
    if not names:
        return dict(files)
    hide = _hiding(names)
    hidden = {name: _hidden(name, data, hide) for name, data in files.items()}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in hidden.items()}
    result = decode(hidden[RESULT], Result, RESULT)
    result = replace(result, files={name: hashes.get(name, digest) for name, digest in result.files.items()})
    hidden[RESULT] = encode_pretty(result)
    if REPORT in hidden:
        hidden[REPORT] = report(result).encode()
    return hidden


def replacements(plan: Plan) -> dict[str, str]:
    """Replacements for each name and address of the plan's nodes."""
    names: dict[str, str] = {}
    for kind, texts in (
        ("node", [node.host for node in plan.nodes]),
        ("address", [node.address for node in plan.nodes]),
    ):
        for number, text in enumerate(texts):
            names.setdefault(text, f"{kind}-{number:03d}")
        for number, text in enumerate(texts):  # `USER@HOST:PORT` is known without user and port too
            names.setdefault(_bare(text), f"{kind}-{number:03d}")
    return {name: other for name, other in names.items() if name and not PUBLIC.fullmatch(name)}


def _bare(host: str) -> str:
    name, colon, port = host.rpartition("@")[2].rpartition(":")
    return name if colon and port.isdigit() and ":" not in name else host.rpartition("@")[2]


def _hiding(names: Mapping[str, str]) -> Hide:
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-]|\.\w)")
    return lambda text: pattern.sub(lambda match: names[match[0]], text)


def _hidden(name: str, data: bytes, hide: Hide) -> bytes:
    """A file of the run; one in which nothing changes keeps its bytes."""
    folder, _, inner = name.rpartition("/")
    if name in DOCUMENTS or (folder == "records" and inner.startswith("host-")):
        document = json.loads(data)
        hidden = _without(document, hide, inside=False)
        return data if hidden == document else encode_pretty(hidden)
    if folder == "records" and inner.startswith("rank-"):
        return b"\n".join(_failure(line, hide) for line in data.split(b"\n"))
    if folder == "logs":
        return hide(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return data


def _failure(line: bytes, hide: Hide) -> bytes:
    """A record; only those of failures hold texts. The last line may be cut off."""
    if b'"failure"' not in line:
        return line
    try:
        record = json.loads(line)
    except ValueError:
        return line
    return msgspec.json.encode(_without(record, hide, inside=False)) if isinstance(record, dict) else line


def _without(value: Any, hide: Hide, *, inside: bool) -> Any:
    if isinstance(value, str):
        return hide(value) if inside else value
    if isinstance(value, list):
        return [_without(part, hide, inside=inside) for part in value]
    if isinstance(value, dict):
        return {
            name: _without(part, hide, inside=inside or name in TEXTS or name.startswith("environment."))
            for name, part in value.items()
        }
    return value

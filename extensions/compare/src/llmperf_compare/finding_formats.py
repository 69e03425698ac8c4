"""Findings as the documents that CI services read: GitHub's workflow commands, SARIF, JUnit."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmperf import printable
from llmperf.types import FileFindings, Finding

Files = Sequence[FileFindings]
COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
"""Severities as GitHub's workflow commands call them; SARIF has llmperf's own names."""
FINGERPRINT = "llmperfFinding/v1"
"""Name of the fingerprint by which code-scanning services know a finding again."""


def github(files: Files) -> str:
    """Workflow commands of GitHub, which shows them beside the files of a pull request."""
    lines = []
    for file, finding in _all(files):
        line = file.lines.get(finding.path)
        place, title = _escaped(str(file.path), ",:"), _escaped(finding.code, ",:")
        place += f",line={line}" if line is not None else ""
        message = _escaped(": ".join(filter(None, (finding.path, finding.message))))
        lines.append(f"::{COMMANDS[finding.severity]} file={place},title={title}::{message}\n")
    return "".join(lines)


def _escaped(value: str, beside: str = "") -> str:
    """Text escaped as GitHub's runner decodes it: %, line ends and, in properties, comma and colon."""
    for char in f"%\r\n{beside}":
        value = value.replace(char, f"%{ord(char):02X}")
    return printable(value)


def sarif(files: Files, rules: Mapping[str, tuple[str, str]] | None = None, names: Sequence[str] | None = None) -> str:
    """SARIF 2.1.0 (OASIS), for code-scanning services and editors; `names` tell files apart in later invocations."""
    from hashlib import sha256

    from llmperf import __version__

    if rules is None:
        from llmperf.validation import whole_catalogue

        used = {finding.code for _, finding in _all(files)}
        every = [owned.rule for owned in whole_catalogue().all_rules()]
        rules = {rule.code: (rule.title, rule.severity) for rule in every if rule.code in used}
    described = [
        {"id": code, "shortDescription": {"text": title}, "defaultConfiguration": {"level": severity}}
        for code, (title, severity) in rules.items()
    ]
    seen: Counter[str] = Counter()
    results = []
    for file, name in zip(files, names or [file.path.as_posix() for file in files], strict=True):
        for finding in file.findings:
            mark = sha256(_encodable("\0".join((finding.code, name, finding.path))).encode()).hexdigest()[:16]
            seen[mark] += 1
            region = {"startLine": file.lines.get(finding.path) or 1}  # services need one, also for a whole file
            where: dict[str, Any] = {
                "physicalLocation": {"artifactLocation": {"uri": _uri(file.path)}, "region": region}
            }
            if finding.path:
                where["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
            results.append({
                "ruleId": finding.code,
                "level": finding.severity,
                "message": {"text": _encodable(finding.message)},
                "locations": [where],
                "partialFingerprints": {FINGERPRINT: f"{mark}:{seen[mark]}"},
            })  # fmt: skip
    driver = {"name": "llmperf", "version": __version__, "rules": described}
    run = {"tool": {"driver": driver}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _uri(path: Path) -> str:
    """A URI reference (RFC 3986) of a relative or absolute path; bytes that are not text are encoded too."""
    from urllib.parse import quote

    try:
        return quote(os.fsencode(path.as_posix()))
    except UnicodeEncodeError:  # not the name of a file
        return quote(_encodable(path.as_posix()))


def junit(files: Files, suite_name: str = "llmperf validate", names: Sequence[str] | None = None) -> str:
    """JUnit's XML by the schemas of Jenkins and Maven, with a test case for each file, by `names` or its path."""
    from xml.etree import ElementTree

    errors = sum(file.unreadable for file in files)
    failures = sum(file.failed for file in files) - errors
    counts = {"tests": len(files), "failures": failures, "errors": errors, "skipped": 0}
    attributes = {"name": suite_name, **{name: str(count) for name, count in counts.items()}}
    suite = ElementTree.Element("testsuite", attributes)
    if all(file.seconds is not None for file in files):
        suite.set("time", f"{sum(file.seconds or 0.0 for file in files):.3f}")
    for file, name in zip(files, names or [str(file.path) for file in files], strict=True):
        case = ElementTree.SubElement(suite, "testcase", classname=file.kind or "unknown", name=_xml(name))
        if file.seconds is not None:
            case.set("time", f"{file.seconds:.3f}")
        wrong = [finding for finding in file.findings if finding.severity == "error"]
        others = [finding for finding in file.findings if finding.severity != "error"]
        if wrong:
            lines = "\n".join(_xml(_line(file, finding)) for finding in wrong)
            number = sum(1 + finding.more for finding in wrong)
            message = f"{number} errors, the first " * (number > 1) + _xml(f"{wrong[0].code}: {wrong[0].message}")
            outcome = "error" if file.unreadable else "failure"
            ElementTree.SubElement(case, outcome, message=message, type=_xml(wrong[0].code)).text = lines
        if others:
            lines = "\n".join(_xml(_line(file, finding)) for finding in others)
            ElementTree.SubElement(case, "system-out").text = lines
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def answer_findings(files: Files, wanted: str, command: str, names: Sequence[str], titles: Mapping[str, str]) -> str:
    """Findings of another command, in `junit`, `github` or `sarif`; `titles` say what each code means."""
    if wanted == "junit":
        return junit(files, command, names)
    if wanted == "github":
        return github(files)
    worst = {finding.code: finding.severity for _, finding in _all(files)}
    return sarif(files, {code: (titles[code], worst[code]) for code in sorted(worst)}, names)


def _xml(value: str) -> str:
    """Text without the characters that XML cannot contain even if escaped."""
    return printable(_encodable(value))


def _encodable(text: str) -> str:
    """Text that can be written as UTF-8: half a surrogate pair becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _line(file: FileFindings, finding: Finding) -> str:
    place = [str(file.path), str(file.lines.get(finding.path, "")), finding.path]
    return printable(f"{':'.join(filter(None, place))}: {finding.code} {finding.severity} {finding.message}")


def _all(files: Files) -> Iterator[tuple[FileFindings, Finding]]:
    return ((file, finding) for file in files for finding in file.findings)

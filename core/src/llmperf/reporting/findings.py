"""Findings as text for people and as the documents that other programs read: GitHub, SARIF, JUnit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmperf.files.text import encodable, printable
from llmperf.types import FileFindings, Finding, Rule
from llmperf.validation.catalogue import counted

Files = Sequence[FileFindings]
LEVELS = {"error": "error", "warning": "warning", "note": "note"}
"""Severities as SARIF calls them."""
COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
"""Severities as GitHub's workflow commands call them."""


def text(files: Files) -> str:
    """One line a finding, as linters print them: `path:/json/pointer: CODE severity message`."""
    return "".join(f"{_line(file, one)}\n" for file, one in _all(files))


def as_json(files: Files) -> str:
    """A list of files, each with its kind and its findings; of a published document also what is known of each row."""
    from llmperf.files.json_files import encode_pretty

    listed = [
        {
            "path": encodable(str(file.path)),
            "kind": file.kind,
            "findings": [_encodable(one) for one in file.findings],
            **({"rows": [one.document() for one in file.verdicts]} if file.verdicts else {}),
        }
        for file in files
    ]
    return encode_pretty(listed).decode()


def _encodable(one: Finding) -> Finding:
    return replace(one, path=encodable(one.path), message=encodable(one.message))


def github(files: Files) -> str:
    """Workflow commands, which GitHub shows beside the files of a pull request."""
    lines = []
    for file, one, line in _placed(files):
        place, title = _escaped(str(file.path), ",:"), _escaped(one.code, ",:")
        place += f",line={line}" if line is not None else ""
        message = _escaped(f"{one.path}: {one.message}")
        lines.append(f"::{COMMANDS[one.severity]} file={place},title={title}::{message}\n")
    return "".join(lines)


def _escaped(value: str, beside: str = "") -> str:
    """As GitHub's runner decodes it: %, line ends, and in properties also comma and colon."""
    for char in f"%\r\n{beside}":
        value = value.replace(char, f"%{ord(char):02X}")
    return printable(value)


def sarif(files: Files) -> str:
    """SARIF 2.1.0 (OASIS), for code-scanning services and editors."""
    used = {finding.code for _, finding in _all(files)}
    rules = [_rule(rule) for rule in _rules() if rule.code in used]
    run = {
        "tool": {"driver": {"name": "llmperf", "rules": rules}},
        "results": [_sarif_result(file, finding, line) for file, finding, line in _placed(files)],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> Mapping[str, Any]:
    level = {"level": LEVELS[rule.severity]}
    return {"id": rule.code, "shortDescription": {"text": rule.title}, "defaultConfiguration": level}


def _sarif_result(file: FileFindings, one: Finding, line: int | None) -> Mapping[str, Any]:
    """A result; code-scanning services take none without a region, so what concerns a whole file is on line 1."""
    place = {"artifactLocation": {"uri": _uri(file.path)}, "region": {"startLine": line or 1}}
    where = {"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": one.path}]}
    message = {"text": encodable(one.message)}
    return {"ruleId": one.code, "level": LEVELS[one.severity], "message": message, "locations": [where]}


def _uri(path: Path) -> str:
    """A relative URI reference (RFC 3986), or one with an absolute path; bytes that are no text are encoded too."""
    from urllib.parse import quote

    try:
        return quote(os.fsencode(path.as_posix()))
    except UnicodeEncodeError:  # no name of a file
        return quote(encodable(path.as_posix()))


def junit(files: Files) -> str:
    """JUnit's XML: a test case a file. One with error findings fails, one that cannot be read is an error.

    Elements and attributes are those of the schemas of Jenkins (junit-10.xsd) and Maven (surefire-test-report.xsd).
    """
    from xml.etree import ElementTree

    errors = sum(file.unreadable for file in files)
    failures = sum(file.failed for file in files) - errors
    counts = {"tests": len(files), "failures": failures, "errors": errors, "skipped": 0}
    attributes = {"name": "llmperf validate", **{name: str(count) for name, count in counts.items()}}
    suite = ElementTree.Element("testsuite", attributes)
    if all(file.seconds is not None for file in files):
        suite.set("time", f"{sum(file.seconds or 0.0 for file in files):.3f}")
    for file in files:
        case = ElementTree.SubElement(suite, "testcase", classname=file.kind or "unknown", name=_xml(str(file.path)))
        if file.seconds is not None:
            case.set("time", f"{file.seconds:.3f}")
        wrong = [one for one in file.findings if one.severity == "error"]
        others = [one for one in file.findings if one.severity != "error"]
        if wrong:
            lines = "\n".join(_xml(_line(file, one)) for one in wrong)
            number = counted(wrong, "error")
            message = f"{number} error{'s' * (number > 1)}, the first {wrong[0].code}"
            outcome = "error" if file.unreadable else "failure"
            ElementTree.SubElement(case, outcome, message=message, type=_xml(wrong[0].code)).text = lines
        if others:
            ElementTree.SubElement(case, "system-out").text = "\n".join(_xml(_line(file, one)) for one in others)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _xml(value: str) -> str:
    """Without the characters that XML cannot hold even when escaped."""
    return printable(encodable(value))


def _line(file: FileFindings, one: Finding) -> str:
    place = [str(file.path), str(file.lines.get(one.path, "")), one.path]
    return printable(f"{':'.join(filter(None, place))}: {one.code} {one.severity} {one.message}")


def _all(files: Files) -> Iterator[tuple[FileFindings, Finding]]:
    return ((file, one) for file in files for one in file.findings)


def _placed(files: Files) -> Iterator[tuple[FileFindings, Finding, int | None]]:
    """Each finding with the line it is about; None where nobody knows one."""
    from llmperf.validation.pointer_lines import lines_of

    for file in files:
        lines = file.lines or lines_of(file.path, (one.path for one in file.findings))
        for one in file.findings:
            yield file, one, lines.get(one.path)


def _rules() -> list[Rule]:
    """Every rule of the core and of the installed plugins."""
    from llmperf.validation.catalogue import installed_pairs, open_catalogue

    return [owned.rule for owned in open_catalogue(installed_pairs()).all_rules()]


FORMATS: Mapping[str, Callable[[Files], str]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": sarif,
    "junit": junit,
}
"""What `--format` takes."""

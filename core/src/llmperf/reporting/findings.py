"""Findings as text for people and as the documents that other programs read: GitHub, SARIF, JUnit."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmperf.files.text import encodable, printable
from llmperf.reporting.words import recorded, word
from llmperf.types import FileFindings, Finding, Rule
from llmperf.validation.catalogue import counted

Files = Sequence[FileFindings]
LEVELS = {"error": "error", "warning": "warning", "note": "note"}
"""Severities as SARIF calls them."""
COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
"""Severities as GitHub's workflow commands call them."""


FINGERPRINT = "llmperfFinding/v1"
"""Name of the fingerprint by which code-scanning services know a finding again."""


def text(files: Files, language: str = "en") -> str:
    """One line for each finding, as linters print them: `path:/json/pointer: CODE severity message`."""
    return "".join(f"{_line(file, finding, language)}\n" for file, finding in _all(files))


def as_json(files: Files) -> str:
    """A list of files, each with its kind and its findings; for kinds with rows also the verdict on each row."""
    from llmperf.files.json_files import encode_pretty

    listed = [
        {
            "path": encodable(str(file.path)),
            "kind": file.kind,
            "findings": [
                replace(finding, path=encodable(finding.path), message=encodable(finding.message))
                for finding in file.findings
            ],
            **({"rows": [verdict.document() for verdict in file.verdicts]} if file.verdicts else {}),
        }
        for file in files
    ]
    return encode_pretty(listed).decode()


def github(files: Files) -> str:
    """Workflow commands of GitHub, which shows them beside the files of a pull request."""
    lines = []
    for file, finding, line in _placed(files):
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


def sarif(files: Files, rules: Sequence[Mapping[str, Any]] | None = None, names: Sequence[str] | None = None) -> str:
    """SARIF 2.1.0 (OASIS), for code-scanning services and editors.

    `rules` are those of other tools than validation. `names` tell the files apart from one invocation to the next
    where their paths do not, by default the paths: the fingerprint of a finding is made of them.
    """
    from hashlib import sha256

    from llmperf import __version__

    used = {finding.code for _, finding in _all(files)}
    if rules is None:
        rules = [sarif_rule(rule.code, rule.title, rule.severity) for rule in _rules() if rule.code in used]
    seen: Counter[str] = Counter()
    results = []
    for file, name in zip(files, names or [file.path.as_posix() for file in files], strict=True):
        for _, finding, line in _placed([file]):
            mark = sha256(encodable("\0".join((finding.code, name, finding.path))).encode()).hexdigest()[:16]
            seen[mark] += 1
            results.append(_sarif_result(file, finding, line, f"{mark}:{seen[mark]}"))
    driver = {"name": "llmperf", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def sarif_rule(code: str, title: str, severity: str) -> Mapping[str, Any]:
    """A rule as SARIF describes it."""
    level = {"level": LEVELS[severity]}
    return {"id": code, "shortDescription": {"text": title}, "defaultConfiguration": level}


def _sarif_result(file: FileFindings, finding: Finding, line: int | None, fingerprint: str) -> Mapping[str, Any]:
    """A result. Code-scanning services need a region, so a finding about a whole file is on line 1."""
    place = {"artifactLocation": {"uri": _uri(file.path)}, "region": {"startLine": line or 1}}
    where: dict[str, Any] = {"physicalLocation": place}
    if finding.path:
        where["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    return {
        "ruleId": finding.code,
        "level": LEVELS[finding.severity],
        "message": {"text": encodable(finding.message)},
        "locations": [where],
        "partialFingerprints": {FINGERPRINT: fingerprint},
    }


def _uri(path: Path) -> str:
    """A URI reference (RFC 3986) of a relative or absolute path; bytes that are not text are encoded too."""
    from urllib.parse import quote

    try:
        return quote(os.fsencode(path.as_posix()))
    except UnicodeEncodeError:  # not the name of a file
        return quote(encodable(path.as_posix()))


def junit(files: Files, suite_name: str = "llmperf validate", names: Sequence[str] | None = None) -> str:
    """JUnit's XML with a test case for each file: a file with error findings fails, an unreadable file is an error.

    `names` are those of the test cases, by default the paths of the files. Elements and attributes are those of
    the schemas of Jenkins (junit-10.xsd) and Maven (surefire-test-report.xsd).
    """
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
            number = counted(wrong, "error")
            message = f"{number} error{'s' * (number > 1)}, the first {wrong[0].code}"
            outcome = "error" if file.unreadable else "failure"
            ElementTree.SubElement(case, outcome, message=message, type=_xml(wrong[0].code)).text = lines
        if others:
            lines = "\n".join(_xml(_line(file, finding)) for finding in others)
            ElementTree.SubElement(case, "system-out").text = lines
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def answer_findings(files: Files, wanted: str, command: str, names: Sequence[str], titles: Mapping[str, str]) -> str:
    """Findings of another command than `validate`, in `junit`, `github` or `sarif`.

    `names` are those of the files for people, `titles` say what each code means.
    """
    if wanted == "junit":
        return junit(files, command, names)
    if wanted == "github":
        return github(files)
    worst = {finding.code: finding.severity for _, finding in _all(files)}
    return sarif(files, [sarif_rule(code, titles[code], worst[code]) for code in sorted(worst)], names)


def _xml(value: str) -> str:
    """Text without the characters that XML cannot contain even if escaped."""
    return printable(encodable(value))


def _line(file: FileFindings, finding: Finding, language: str = "en") -> str:
    place = [str(file.path), str(file.lines.get(finding.path, "")), finding.path]
    words = finding.code, word(finding.severity, language), recorded(finding.message, language)
    return printable(f"{':'.join(filter(None, place))}: {' '.join(words)}")


def _all(files: Files) -> Iterator[tuple[FileFindings, Finding]]:
    return ((file, finding) for file in files for finding in file.findings)


def _placed(files: Files) -> Iterator[tuple[FileFindings, Finding, int | None]]:
    """Each finding with its line in the file; None if unknown."""
    from llmperf.validation.reading import lines_of

    for file in files:
        lines = file.lines or lines_of(file.path, (finding.path for finding in file.findings))
        for finding in file.findings:
            yield file, finding, lines.get(finding.path)


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
"""Formats of `llmperf validate --format`, by name."""

"""Everything the validator has to say: of a result, of a file, of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf.documents import convert, read_bytes
from llmperf.errors import UserError
from llmperf.rundir import RESULT
from llmperf.types import Case, Finding, Model, Plan, Result
from llmperf.validation.archives import unpacked
from llmperf.validation.catalogue import rules_for
from llmperf.validation.finding_files import MANIFEST, NONE_FOUND, Document, Kind, documents_in, kind_of
from llmperf.validation.reading import Parsed, from_toml, parse_json, printable, shown
from llmperf.validation.repeated import Seen
from llmperf.validation.rules.documents import CUT_OFF, MISNAMED, REPEATED_KEY, UNREADABLE
from llmperf.validation.schema import MAX_FINDINGS, schema_findings

if TYPE_CHECKING:
    from llmperf.plugins import Plugins
    from llmperf.types.published import Published

_TYPES: dict[Kind, type] = {"result": Result, "plan": Plan, "case": Case, "model": Model}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFindings:
    """What the validator has to say of one file."""

    path: Path
    kind: Kind | None = None
    """None where the file could not be told or read."""
    findings: tuple[Finding, ...]

    @property
    def unreadable(self) -> bool:
        """Whether the file could not be judged at all."""
        return any(one.code == UNREADABLE.code for one in self.findings)

    @property
    def failed(self) -> bool:
        """Whether any finding is an error."""
        return any(one.severity == "error" for one in self.findings)


def findings(result: Result, plugins: Plugins | None = None) -> tuple[Finding, ...]:
    """Every semantic rule over a result: the core's, then those of the given plugins."""
    told = [finding for rule in rules_for("result") for finding in rule.findings(result)]
    if plugins is not None:
        from llmperf.validation.plugin_rules import plugin_findings

        told += plugin_findings(result, plugins)
    return tuple(told)


def plan_findings(plan: Plan) -> tuple[Finding, ...]:
    """Every semantic rule over a plan."""
    return tuple(finding for rule in rules_for("plan") for finding in rule.findings(plan))


def published_findings(published: Published) -> tuple[Finding, ...]:
    """Every semantic rule over an imported document."""
    return tuple(finding for rule in rules_for("published") for finding in rule.findings(published))


@dataclass
class Validator:
    """Judges documents one after the other, and knows which results it has seen."""

    plugins: Plugins | None = None
    """Those whose rules are applied beside the core's."""
    seen: Seen = field(default_factory=Seen)

    def validated(self, path: Path) -> Iterator[FileFindings]:
        """A file, or every document in a folder and below it, each as soon as it is judged.

        Links out of the folder are not followed.
        """
        judged = 0
        try:
            for document in documents_in(path):
                for file in self._files_of(document):
                    judged += 1
                    yield file
            if not judged:
                raise UserError(NONE_FOUND)
        except UserError as error:
            yield _unreadable(path, None, error)

    def _files_of(self, document: Document) -> Iterator[FileFindings]:
        """The document, or what is in it where it is an archive."""
        if document.kind != "archive":
            yield from self._judged(document)
            return
        try:
            with unpacked(document.path) as folder:
                yield from [_renamed(file, folder, document.path) for file in self._submission(folder)]
        except UserError as error:
            yield _unreadable(document.path, "archive", error)

    def _submission(self, folder: Path) -> Iterator[FileFindings]:
        """The manifest of an unpacked archive, then the documents in it; archives in archives are not opened."""
        try:
            from llmperf.validation.submission import manifest_findings

            told = tuple(manifest_findings(folder))
        except UserError as error:
            told = (UNREADABLE.finding("", str(error)),)
        yield FileFindings(path=folder / MANIFEST, kind="manifest", findings=told)
        try:
            for document in documents_in(folder):
                if document.kind not in ("manifest", "archive"):
                    yield from self._judged(document)
        except UserError as error:
            yield _unreadable(folder, None, error)

    def _judged(self, document: Document) -> Iterator[FileFindings]:
        """Findings of one document; nothing for Markdown in a folder that is no published document."""
        try:
            if document.kind == "readme":
                told = self._readme_findings(document)
            else:
                told = tuple(self._document_findings(document))
        except UserError as error:
            yield _unreadable(document.path, document.kind, error)
            return
        if told is not None:
            yield FileFindings(path=document.path, kind=document.kind, findings=told)

    def _readme_findings(self, document: Document) -> tuple[Finding, ...] | None:
        """None where nobody named the file and it is something else; UserError where it was named."""
        from llmperf.validation.imported import read_readme

        published = read_readme(document.path)
        described = any(one.kind in ("hardware", "software") for one in published.sections)
        if published.rows and (document.named or described):
            return tuple(self._published(published, document.path))
        if document.named:
            raise UserError("expected a table of results (throughput, memory, ...), found none")
        return None

    def _document_findings(self, document: Document) -> Iterator[Finding]:
        if document.kind == "record":
            yield from _record_file_findings(document.path)
            return
        parsed = _parsed(document)
        for key in parsed.repeated:
            yield REPEATED_KEY.finding("", f"key {shown(key)} stands twice in one object")
        broken = schema_findings(document.kind, parsed.value)
        yield from broken
        if not broken and not parsed.repeated:
            yield from self._semantic_findings(document, parsed.value)

    def _semantic_findings(self, document: Document, value: Any) -> Iterator[Finding]:
        typed: Any = convert(value, _type_of(document.kind), str(document.path))
        if isinstance(typed, Result):
            yield from self._result(typed, document.path)
        elif isinstance(typed, Plan):
            yield from plan_findings(typed)
        elif document.kind == "published":
            yield from self._published(typed, document.path)
        elif typed.name != document.path.stem:
            message = f"expected {shown(document.path.stem)}, as the file is called, found {shown(typed.name)}"
            yield MISNAMED.finding("/name", message)

    def _result(self, result: Result, path: Path) -> Iterator[Finding]:
        from llmperf.validation.run_folder import run_folder_findings

        yield from findings(result, self.plugins)
        yield from run_folder_findings(result, path.parent)
        yield from self.seen.of_result(result, path)

    def _published(self, published: Published, path: Path) -> Iterator[Finding]:
        yield from published_findings(published)
        yield from self.seen.of_published(published, path)


def validate_path(path: Path, plugins: Plugins | None = None) -> list[FileFindings]:
    """A file, or every document of llmperf in a folder and below it, judged by themselves."""
    return list(Validator(plugins).validated(path))


def _renamed(file: FileFindings, folder: Path, archive: Path) -> FileFindings:
    """With its place in the archive for a path, not the folder it was unpacked to."""
    told = (replace(one, message=one.message.replace(str(folder), str(archive))) for one in file.findings)
    return FileFindings(path=archive / file.path.relative_to(folder), kind=file.kind, findings=tuple(told))


def _unreadable(path: Path, kind: Kind | None, error: UserError) -> FileFindings:
    message = str(error).removeprefix(f"{path}: ")
    return FileFindings(path=path, kind=kind, findings=(UNREADABLE.finding("", message),))


def _type_of(kind: Kind) -> type:
    """The dataclass of a kind of document; that of published ones, which takes its time, only where there are any."""
    if kind == "published":
        from llmperf.types.published import Published

        return Published
    return _TYPES[kind]


def _parsed(document: Document) -> Parsed:
    if document.path.suffix == ".toml":
        from llmperf.cases.toml_file import read_toml

        # a file that gives no name has its own, as for `llmperf run`
        table = {"name": document.path.stem, **read_toml(document.path)}
        return from_toml(table, str(document.path))
    return parse_json(read_bytes(document.path), str(document.path))


def _record_file_findings(path: Path) -> Iterator[Finding]:
    lines = read_bytes(path).split(b"\n")
    told = 0
    for number, line in enumerate(lines):
        whole = number < len(lines) - 1
        for finding in _line_findings(line, number, whole, path):
            yield finding
            told += 1
        if told >= MAX_FINDINGS:
            return


def _line_findings(line: bytes, number: int, whole: bool, path: Path) -> Iterator[Finding]:
    if not line.strip():
        return
    try:
        parsed = parse_json(line, str(path))
    except UserError as error:
        if whole:
            raise UserError(f"{path}: line {number + 1}: {str(error).removeprefix(f'{path}: ')}") from None
        yield CUT_OFF.finding(f"/{number}", "the last line is cut off")
        return
    for finding in schema_findings("record", parsed.value):
        yield Finding(
            code=finding.code,
            severity=finding.severity,
            path=f"/{number}{finding.path}",
            message=finding.message,
        )


def read_results(path: Path) -> list[Result]:
    """The result in a file or a run folder, or every result in a folder and below it; UserError if there is none."""
    return [result for _, result in found_results(path)]


def found_results(path: Path) -> list[tuple[Path, Result]]:
    """The same, each with the file it was read from."""
    if not path.is_dir() or (path / RESULT).is_file():
        file = path / RESULT if path.is_dir() else path
        return [(file, read_result(file))]
    found = [(one.path, read_result(one.path)) for one in documents_in(path) if one.kind == "result"]
    if not found:
        raise UserError(f"{path}: expected {RESULT} in it or below it, found none")
    return found


def read_run_result(run: Path) -> Result:
    """The result of a run folder, or in a file; UserError with the first thing that is wrong with it."""
    return read_result(run / RESULT if run.is_dir() else run)


def read_result(path: Path) -> Result:
    """A result from a file, held against its schema; UserError with the first thing that is wrong."""
    value = parse_json(read_bytes(path), str(path)).value
    for one in schema_findings("result", value):
        raise UserError(printable(f"{path}:{one.path}: {one.message}"))
    result: Result = convert(value, Result, str(path))
    return result


def found_published(path: Path) -> list[tuple[Path, Published]]:
    """Every imported document in a file or in a folder and below it, each with its file; none where there is none."""
    found = [one.path for one in documents_in(path) if one.kind == "published"]
    return [(file, read_published(file)) for file in found]


def found_reportable(
    paths: Sequence[Path],
) -> tuple[tuple[tuple[Path, Result], ...], tuple[tuple[Path, Published], ...]]:
    """The results and the imported documents at some paths; UserError where there is neither."""
    results: list[tuple[Path, Result]] = []
    published: list[tuple[Path, Published]] = []
    for path in paths:
        found = len(results) + len(published)
        for one in _reportable(path):
            if one.kind == "published":
                published.append((one.path, read_published(one.path)))
            elif one.kind == "result":
                results.append((one.path, read_result(one.path)))
        if found == len(results) + len(published):
            raise UserError(f"{path}: expected {RESULT} or an imported document in it or below it, found neither")
    return tuple(results), tuple(published)


def _reportable(path: Path) -> Iterator[Document]:
    """The result of a run folder alone; a file that does not say what it is, for a result."""
    if path.is_dir() and not (path / RESULT).is_file():
        yield from documents_in(path)
    else:
        file = path / RESULT if path.is_dir() else path
        yield Document(file, "published" if file.is_file() and kind_of(file) == "published" else "result")


def read_published(path: Path) -> Published:
    """An imported document, held against its schema; UserError with the first thing that is wrong."""
    value = parse_json(read_bytes(path), str(path)).value
    for one in schema_findings("published", value):
        raise UserError(printable(f"{path}:{one.path}: {one.message}"))
    published: Published = convert(value, _type_of("published"), str(path))
    return published

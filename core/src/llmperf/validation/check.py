"""Everything the validator has to say: of a result, of a file, of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf.errors import PluginError, UserError
from llmperf.files.json_files import convert, read_bytes
from llmperf.submissions.archives import unpacked
from llmperf.types import Case, Finding, Model, Plan, Result
from llmperf.validation.catalogue import rules_for
from llmperf.validation.finding_files import MANIFEST, NONE_FOUND, Document, Kind, documents_in
from llmperf.validation.reading import Parsed, from_toml, parse_json, printable, shown
from llmperf.validation.record_files import record_file_findings
from llmperf.validation.repeated import Seen
from llmperf.validation.rules.documents import MISNAMED, REPEATED_KEY, UNREADABLE
from llmperf.validation.rules.files import BROKEN_VENDOR, PLUGIN_FAILED
from llmperf.validation.schema import schema_findings, strict_findings

if TYPE_CHECKING:
    from llmperf_published.rules.verdicts import Verdict
    from llmperf_published.types.document import Published

    from llmperf.plugins.loading import Plugins

_TYPES: dict[Kind, type] = {"result": Result, "plan": Plan, "case": Case, "model": Model}

_OF_PUBLISHED_FORM = ("config_name", "fix_hp")
"""Columns that tables about other matters do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFindings:
    """What the validator has to say of one file."""

    path: Path
    kind: Kind | None = None
    """None where the file could not be told or read."""
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...] = ()
    """Of a published document: what is known of each row."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Of a published document: the line that each finding's pointer stands for."""
    seconds: float | None = None
    """Time that judging took; None where nobody measured it."""

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
    told = [*_applied("result", result), *_vendor_findings(result.hardware.vendor, "/hardware/vendor")]
    if plugins is not None:
        from llmperf.validation.plugin_rules import plugin_findings

        told += plugin_findings(result, plugins)
    return tuple(told)


def plan_findings(plan: Plan) -> tuple[Finding, ...]:
    """Every semantic rule over a plan."""
    return (*_applied("plan", plan), *_vendor_findings(plan.vendor, "/vendor"))


def published_findings(published: Published) -> tuple[Finding, ...]:
    """Every semantic rule over an imported document."""
    from llmperf_published.rules.verdicts import judged

    return judged(published)[0]


def _vendor_findings(vendor: str, path: str) -> Iterator[Finding]:
    """That an installed plugin is broken: it publishes nothing, and nothing was held against what it publishes."""
    from llmperf.validation.devices import vendor_trouble

    if (why := vendor_trouble(vendor)) is not None:
        expected = "expected a plugin that says what it publishes; its devices were not checked"
        yield BROKEN_VENDOR.finding(path, f"{expected}: {printable(why)[:200]}")


def _applied(subject: str, document: Any) -> Iterator[Finding]:
    """What the core's rules say; a vendor plugin that raises when a rule asks it spoils that rule alone."""
    for rule in rules_for(subject):
        try:
            yield from rule.findings(document)
        except PluginError as error:
            yield PLUGIN_FAILED.finding("", printable(f"{rule.code} was not applied: {error}")[:300])


@dataclass
class Validator:
    """Judges documents one after the other, and knows which results it has seen."""

    plugins: Plugins | None = None
    """Those whose rules are applied beside the core's."""
    submitted: bool = False
    """Whether results are handed in, and so have to lie in their run folders."""
    seen: Seen = field(default_factory=Seen)
    verdicts: tuple[Verdict, ...] = ()
    """On the rows of the document that was judged last; empty where it was no published one."""
    _unpacked: tuple[Path, Path] | None = None
    """While an archive is judged: the folder it was unpacked to, and the archive."""

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
                self._unpacked = folder, document.path
                yield from [_renamed(file, folder, document.path) for file in self._submission(folder)]
        except UserError as error:
            yield _unreadable(document.path, "archive", error)
        finally:
            self._unpacked = None

    def _submission(self, folder: Path) -> Iterator[FileFindings]:
        """The manifest of an unpacked archive, then the documents in it; archives in archives are not opened."""
        try:
            from llmperf.submissions.manifest import manifest_findings

            told = tuple(manifest_findings(folder))
        except UserError as error:
            told = (UNREADABLE.finding("", str(error)),)
        yield FileFindings(path=folder / MANIFEST, kind="manifest", findings=told)
        try:
            edited = {file.path: file for file in _rendering(folder)}
            yield from edited.values()
            for document in documents_in(folder):
                if document.kind not in ("manifest", "archive") and document.path not in edited:
                    yield from self._judged(document)
        except UserError as error:
            yield _unreadable(folder, None, error)

    def _judged(self, document: Document) -> Iterator[FileFindings]:
        """Findings of one document; nothing for Markdown in a folder that is no published document."""
        if document.kind == "unread":
            yield _unreadable(document.path, None, document.refusal)
            return
        try:
            if document.kind == "readme":
                yield from self._readme(document)
            else:
                self.verdicts = ()
                told = tuple(self._document_findings(document))
                yield FileFindings(path=document.path, kind=document.kind, findings=told, verdicts=self.verdicts)
        except UserError as error:
            yield _unreadable(document.path, document.kind, error)

    def _readme(self, document: Document) -> Iterator[FileFindings]:
        """A published document; of other Markdown nothing, unless somebody named it, which is a UserError."""
        from llmperf_published.rules.imported import line_of, read_readme

        published = read_readme(document.path)
        if published.rows and (document.named or _is_handed_in(published)):
            told = tuple(self.of_published(published, document.path))
            lines = {one.path: line for one in told if (line := line_of(published, one.path))}
            verdicts = self.verdicts
            yield FileFindings(path=document.path, kind=document.kind, findings=told, lines=lines, verdicts=verdicts)
        elif document.named:
            raise UserError("expected a table of results (throughput, memory, ...), found none")

    def _document_findings(self, document: Document) -> Iterator[Finding]:
        if document.kind == "record":
            yield from record_file_findings(document.path)
            return
        parsed = _parsed(document)
        for key in parsed.repeated:
            yield REPEATED_KEY.finding("", f"key {shown(key)} stands twice in one object")
        broken = schema_findings(document.kind, parsed.value)
        yield from broken
        if not broken and not parsed.repeated:
            yield from self._semantic_findings(document, parsed.value)

    def _semantic_findings(self, document: Document, value: Any) -> Iterator[Finding]:
        try:
            typed: Any = convert(value, _type_of(document.kind), str(document.path))
        except UserError:
            told = strict_findings(document.kind, value)
            if not told:
                raise
            yield from told
            return
        if isinstance(typed, Result):
            yield from self.of_result(typed, document.path)
        elif isinstance(typed, Plan):
            yield from self.of_plan(typed, document.path)
        elif document.kind == "published":
            yield from self.of_published(typed, document.path)
        elif typed.name != document.path.stem:
            message = f"expected {shown(document.path.stem)}, as the file is called, found {shown(typed.name)}"
            yield MISNAMED.finding("/name", message)

    def of_result(self, result: Result, path: Path) -> Iterator[Finding]:
        """Every finding of a result that was read from `path`, also what the plan and the records beside it tell."""
        from llmperf.validation.run_folder import run_folder_findings

        yield from findings(result, self.plugins)
        yield from run_folder_findings(result, path.parent, self.submitted or self._unpacked is not None)
        yield from self.seen.of_result(result, self._place(path))

    def of_plan(self, plan: Plan, path: Path) -> Iterator[Finding]:
        """Every finding of a plan, also that the run it was made for has left no result beside it."""
        from llmperf.validation.run_folder import plan_folder_findings

        yield from plan_findings(plan)
        yield from plan_folder_findings(path.parent)

    def of_published(self, published: Published, path: Path) -> Iterator[Finding]:
        """Every finding of an imported document."""
        from llmperf_published.rules.verdicts import judged

        told, self.verdicts = judged(published)
        yield from told
        yield from self.seen.of_published(published, self._place(path))

    def _place(self, path: Path) -> Path:
        """Where a document stands for whoever reads of it: in its archive, not where that was unpacked to."""
        if self._unpacked is None:
            return path
        folder, archive = self._unpacked
        return archive / path.relative_to(folder)


def validate_path(path: Path, plugins: Plugins | None = None) -> list[FileFindings]:
    """A file, or every document of llmperf in a folder and below it, judged by themselves."""
    return list(Validator(plugins).validated(path))


def _is_handed_in(published: Published) -> bool:
    """Whether a document has throughput, and tells of a machine or has a published table's own columns."""
    described = any(one.kind in ("hardware", "software") for one in published.sections)
    names = {column.name for table in published.tables if table.kind == "performance" for column in table.columns}
    return "throughput" in names and (described or not names.isdisjoint(_OF_PUBLISHED_FORM))


def _rendering(folder: Path) -> Iterator[FileFindings]:
    from llmperf.submissions.manifest import rendering_findings

    for path, line, told in rendering_findings(folder):
        yield FileFindings(path=path, kind="readme", findings=(told,), lines={told.path: line})


def _renamed(file: FileFindings, folder: Path, archive: Path) -> FileFindings:
    """With its place in the archive for a path, not the folder it was unpacked to."""
    told = (replace(one, message=one.message.replace(str(folder), str(archive))) for one in file.findings)
    return replace(file, path=archive / file.path.relative_to(folder), findings=tuple(told))


def _unreadable(path: Path, kind: Kind | None, error: UserError) -> FileFindings:
    message = str(error).removeprefix(f"{path}: ")
    return FileFindings(path=path, kind=kind, findings=(UNREADABLE.finding("", message),))


def _type_of(kind: Kind) -> type:
    """The dataclass of a kind of document; that of published ones, which takes its time, only where there are any."""
    if kind == "published":
        from llmperf_published.types.document import Published

        return Published
    return _TYPES[kind]


def _parsed(document: Document) -> Parsed:
    if document.path.suffix == ".toml":
        from llmperf.files.toml_file import read_toml

        # a file that gives no name has its own, as for `llmperf run`
        table = {"name": document.path.stem, **read_toml(document.path)}
        return from_toml(table, str(document.path))
    return parse_json(read_bytes(document.path), str(document.path))

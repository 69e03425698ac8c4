"""The engine: findings of a document, of a file, and of every document in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmperf.errors import LlmperfError, UserError
from llmperf.plugins.faults import blaming
from llmperf.types import Finding, Result, Text
from llmperf.types.documents import DocumentKind, FileFindings, Fingerprint, Verdict
from llmperf.validation.catalogue import Catalogue, open_catalogue
from llmperf.validation.document_files import Document, documents_in, fitted, none_found, parsed
from llmperf.validation.reading import shown
from llmperf.validation.rules.while_reading import REPEATED_KEY, REPEATED_RESULT, UNREADABLE

if TYPE_CHECKING:
    from llmperf.types.commands import FurtherChecks


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Result of applying the rules to one document."""

    findings: tuple[Finding, ...]
    """Findings, at most 20 of each rule."""
    verdicts: tuple[Verdict, ...] = ()
    """One for each row, for kinds with rows."""


def any_code(code: str) -> bool:
    """All rules are wanted."""
    return True


def judgement(
    kind: str, document: Any, catalogue: Catalogue | None = None, wanted: Callable[[str], bool] = any_code
) -> Judgement:
    """Apply the rules over this kind, with codes in `wanted`, to a document, by default of the plugins it names."""
    of = catalogue or open_catalogue()
    definition = of.kinds[kind]
    if catalogue is None and definition.plugins:
        of = open_catalogue(definition.plugins(document))
    listed, whole = of.applied(kind, document, wanted)
    verdicts = definition.verdicts(document, whole) if definition.verdicts else ()
    return Judgement(findings=tuple(listed), verdicts=tuple(verdicts))


def findings(kind: str, document: Any, catalogue: Catalogue | None = None) -> tuple[Finding, ...]:
    """The findings of every rule over this kind in a document, as `judgement` gives them."""
    return judgement(kind, document, catalogue).findings


@dataclass
class Validator:
    """Checks files one after the other, and knows the figures of those that it has seen."""

    catalogue: Catalogue = field(default_factory=open_catalogue)
    """The kinds of document. Rules of vendors and frameworks are added for the documents that name them."""
    submitted: bool = False
    """Results are submitted, so that they have to lie in their run folders."""
    wanted: Callable[[str], bool] = any_code
    """Decides whether the rule with a code is applied."""
    shown_path: Callable[[Path], Path] = lambda path: path
    """The path that messages give for a file, such as its place in an archive."""
    further: FurtherChecks = lambda result, path, archive, findings: ()
    """Applied to each result, after the rules."""
    archive: Path | None = None
    """The archive that is being validated."""
    seen: dict[int, tuple[str | None, str, str]] = field(default_factory=dict)
    """Hash of figures (64 bits, another in each process) to what had them first: its identity, its file, and its place
    in that file. 10,000 results take 4 MB at most."""

    def validated(self, path: Path) -> Iterator[FileFindings]:
        """The findings of a file, or of every document below a folder, as they come; links are skipped."""
        count = 0
        try:
            for document in documents_in(path, self.catalogue):
                for file in self.judged(document):
                    count += 1
                    yield file
            if not count:
                raise UserError(none_found(self.catalogue))
        except UserError as error:
            yield unreadable(path, None, error)

    def judged(self, document: Document) -> Iterator[FileFindings]:
        """The findings of one document; nothing for a file in a folder that turns out to be no document."""
        kind, path = document.kind, document.path
        if kind is None:
            yield unreadable(path, None, document.refusal)
            return
        if self.archive is not None and kind.unpack is not None:
            return
        files: list[FileFindings] = []
        try:
            with blaming(self.catalogue.owner_of(kind), kind.name):
                if kind.judge is not None:
                    files += kind.judge(path, self)
                elif kind.read is None:
                    values = parsed(path, kind)
                    listed = [
                        REPEATED_KEY.finding("", Text("key {} occurs twice in one object", shown(key)))
                        for key in values.repeated
                    ]
                    schema, type_ = self.catalogue.schema_of(kind), kind.type and kind.type()
                    found, value = fitted(path, values.value, schema, type_)
                    if listed or found:
                        files.append(FileFindings(path=path, kind=kind.name, findings=(*listed, *found)))
                    else:
                        files.append(self.checked(kind, path, value))
                elif (value := kind.read(path, document.named)) is not None:
                    files.append(self.checked(kind, path, value))
                elif document.named:
                    raise UserError(f"expected {kind.title}, found none")
        except LlmperfError as error:
            files = [unreadable(path, kind.name, error)]
        yield from files

    def checked(self, kind: DocumentKind, path: Path, document: Any) -> FileFindings:
        """The findings of a document that could be read: of the rules, in its place, and of what is repeated."""
        rules = judgement(kind.name, document, None if kind.plugins else self.catalogue, self.wanted)
        listed = list(rules.findings)
        if kind.in_place is not None:
            listed += kind.in_place(document, path, self.submitted)
        if kind.fingerprints is not None:
            listed += self._repeated(kind.fingerprints(document), path)
        if isinstance(document, Result):
            listed += self.further(document, path, self.archive, tuple(listed))
        line_of = kind.line_of or (lambda document, pointer: None)
        lines = {finding.path: line for finding in listed if (line := line_of(document, finding.path))}
        return FileFindings(path=path, kind=kind.name, findings=tuple(listed), verdicts=rules.verdicts, lines=lines)

    def _repeated(self, fingerprints: Iterable[Fingerprint], path: Path) -> Iterator[Finding]:
        """Findings for figures that an earlier document, or another row, has too."""
        file = str(self.shown_path(path))
        reported: set[str] = set()
        for fingerprint in fingerprints:
            entry = fingerprint.identity, file, fingerprint.place
            first = self.seen.setdefault(hash(fingerprint.figures), entry)
            # things without an identity have their path
            one, other = (identity or str(Path(name).resolve()) for identity, name, _ in (first, entry))
            if one != other and fingerprint.pointer not in reported:
                reported.add(fingerprint.pointer)
                message = Text("expected figures of its own, found those of {}{}", first[1], first[2])
                yield REPEATED_RESULT.finding(fingerprint.pointer, message)


def validate_path(path: Path) -> list[FileFindings]:
    """The findings of a file, or of every document in a folder and below it."""
    return list(Validator().validated(path))


def unreadable(path: Path, kind: str | None, error: LlmperfError) -> FileFindings:
    """The finding for a file that cannot be read."""
    message = str(error).removeprefix(f"{path}: ")
    return FileFindings(path=path, kind=kind, findings=(UNREADABLE.finding("", message),))

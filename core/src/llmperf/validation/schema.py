"""A document against its JSON Schema: each departure on one line with its JSON pointer.

`jsonschema-rs` does the work. `jsonschema` is used where that wheel does not exist, and to find whole numbers that are
written with a point, which JSON Schema accepts as integers and the types do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import islice
from typing import Any

from llmperf.errors import UserError
from llmperf.files.json_files import convert
from llmperf.types import Finding, Text
from llmperf.types.frozen import dataclass
from llmperf.validation.reading import pointer, shown
from llmperf.validation.rules.while_reading import MISSING_KEY, NOT_A_CHOICE, OUT_OF_RANGE, UNKNOWN_KEY, WRONG_TYPE
from llmperf.validation.violations import with_rest

MAX_FINDINGS = 50
"""Findings that are listed for one document; the last of them says how many more there are."""
MAX_COUNTED = 1000
"""Findings beyond those that are counted."""
MAX_VALUES = 100_000
"""Values of an invalid document that are checked one by one: enough for any real one, and quick for a hostile one."""
MAX_KEYS = 1000
"""Keys of one object of an invalid document that are checked, besides those that its schema knows."""
MAX_STRICT_VALUES = 5_000
"""The same of `strict_findings`, which take a hundred times longer."""

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Departure:
    """One error, in the same form from either library."""

    keyword: str
    """The keyword of JSON Schema that failed: `required`, `type`, ..."""
    path: tuple[str | int, ...]
    """Path of the value in the document."""
    value: Any
    """The value found."""
    schema: Schema
    """The schema that has the keyword."""
    context: Sequence[Departure] = ()
    """Errors of all options of an `anyOf`."""


def schema_findings(schema: Schema, document: Any) -> list[Finding]:
    """Departures of a document from a schema; at most `MAX_FINDINGS`."""
    validators = _validators(schema)
    if validators.accept(document):
        return []
    part, cut = _part(document, MAX_VALUES, validators.words)
    findings = _findings(validators.departures(part))
    if cut and findings:
        last = Text("{}; only {} of this document were checked", findings[-1].message, cut)
        findings[-1] = replace(findings[-1], message=last)
    elif cut:
        message = Text("expected values that fit the schema, found others after {} of this document", cut)
        findings = [WRONG_TYPE.finding("", message)]
    return findings


def strict_findings(schema: Schema, document: Any) -> list[Finding]:
    """Findings of `schema_findings`, where a whole number has to be written without a point, as the types require."""
    validators = _validators(schema)
    part, _ = _part(document, MAX_STRICT_VALUES, validators.words)
    return _findings(validators.by_python(part))


def record_findings(document: Any) -> list[Finding]:
    """Departures of one record from the schema of its `kind`; whole numbers are written without a point."""
    from llmperf.runfolder.reader import FURTHER, MISSPELT

    kinds = _record_kinds()
    if not isinstance(document, dict):
        return [WRONG_TYPE.finding("", Text("expected an object, found {}", shown(document)))]
    kind = document.get("kind")
    if kind is None:
        return [MISSING_KEY.finding("/kind", Text("expected one of: {}", ", ".join(kinds)))]
    further = isinstance(kind, str) and FURTHER.fullmatch(kind) and not _nearest(kind, list(kinds), MISSPELT)
    if not isinstance(kind, str) or (kind not in kinds and not further):
        return [NOT_A_CHOICE.finding("/kind", _choice_message(kind, list(kinds)))]
    if kind not in kinds:
        found = NOT_A_CHOICE.finding("/kind", Text("found {}, which an extension wrote: not checked", shown(kind)))
        return [replace(found, severity="note")]
    schema, type_ = kinds[kind]
    if (findings := schema_findings(schema, document)) or type_ is None:
        return findings
    try:
        convert(document, type_, "record")
    except UserError:
        return strict_findings(schema, document)
    return []


@cache
def _record_kinds() -> dict[str, tuple[Schema, type | None]]:
    """Schema and type of each kind of record; those of the project's extensions have no type in core."""
    import llmperf_schemas

    from llmperf.runfolder.reader import KINDS

    root = llmperf_schemas.load("record")
    bodies = [body for body in root["$defs"].values() if "const" in body.get("properties", {}).get("kind", {})]
    kinds = {body["properties"]["kind"]["const"]: {**body, "$defs": root["$defs"]} for body in bodies}
    return {kind: (body, KINDS.get(kind)) for kind, body in kinds.items()}


def _part(document: Any, limit: int, words: frozenset[str]) -> tuple[Any, str]:
    """The document, or about so many of its values; and what that is, or "" if it is the whole document.

    Arrays are cut off after `limit` values, objects after `MAX_KEYS` keys. Keys that the schema knows, `words`, are
    kept in any case, so that a key that is there is never reported as missing.
    """
    left = limit
    cut: dict[str, None] = {}

    def copied(value: Any) -> Any:
        nonlocal left
        left -= 1
        if isinstance(value, dict):
            most = MAX_KEYS if left > -limit else 0
            if len(value) > most:
                cut[Text("the first {} keys of each object", MAX_KEYS)] = None
                value = {key: inner for index, (key, inner) in enumerate(value.items()) if index < most or key in words}
            return {key: copied(inner) for key, inner in value.items()}
        if isinstance(value, list):
            kept = []
            for inner in value:
                if left <= 0:
                    cut[Text("the first {} values", limit)] = None
                    break
                kept.append(copied(inner))
            return kept
        return value

    part = copied(document)
    return (part, Text.joined(" and ", cut)) if cut else (document, "")


class _Validators:
    """The validators of one schema, each made when it is first used."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @cached_property
    def words(self) -> frozenset[str]:
        """Names of the properties of all objects."""
        names: set[str] = set()
        parts: list[Any] = [self._schema]
        while parts:
            part = parts.pop()
            if isinstance(part, Mapping):
                properties = part.get("properties")
                names.update(properties if isinstance(properties, Mapping) else ())
                parts += part.values()
            elif isinstance(part, list):
                parts += part
        return frozenset(names)

    @cached_property
    def _rust(self) -> Any:
        try:
            import jsonschema_rs
        except ImportError:  # there is no wheel for every machine
            return None
        return jsonschema_rs.validator_for(dict(self._schema))

    @cached_property
    def _python(self) -> Any:
        """A validator that refuses 3.0 as an integer, as the types do; plain JSON Schema accepts it."""
        from jsonschema import Draft202012Validator
        from jsonschema.validators import extend

        checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
        strict: Any = extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]
        return strict(self._schema)

    def accept(self, document: Any) -> bool:
        """Check whether the document is valid, in a hundredth of the time that errors take; False too where unknown."""
        try:
            return self._rust is not None and bool(self._rust.is_valid(document))
        except (ValueError, TypeError, RecursionError):  # a number or a text that Rust cannot hold
            return False

    def departures(self, document: Any) -> Iterable[Departure]:
        """The errors in a document."""
        if self._rust is not None:
            try:
                return [self._of_rust(error) for error in self._rust.iter_errors(document)]
            except (ValueError, TypeError, RecursionError):
                pass
        return self.by_python(document)

    def _of_rust(self, error: Any) -> Departure:
        schema: Any = self._schema
        for part in error.schema_path[:-1]:
            schema = schema[part]
        context = tuple(self._of_rust(inner) for option in getattr(error.kind, "context", ()) for inner in option)
        return Departure(str(error.schema_path[-1]), tuple(error.instance_path), error.instance, schema, context)

    def by_python(self, document: Any) -> Iterator[Departure]:
        """The errors in a document, also whole numbers with a point, found by `jsonschema`."""

        def departure(error: Any) -> Departure:
            context = tuple(map(departure, error.context or ()))
            return Departure(str(error.validator), tuple(error.absolute_path), error.instance, error.schema, context)

        return map(departure, self._python.iter_errors(document))


_CACHE: dict[int, _Validators] = {}


def _validators(schema: Schema) -> _Validators:
    """The validators of a schema; they keep it alive, so that its identity is not given to another."""
    return _CACHE.get(id(schema)) or _CACHE.setdefault(id(schema), _Validators(schema))


def _findings(departures: Iterable[Departure]) -> list[Finding]:
    """Findings by path, without duplicates; of more than `MAX_FINDINGS`, the last counts the rest."""
    seen: set[Finding] = set()
    all_findings = (finding for departure in departures for finding in _translate(departure))
    found = (finding for finding in all_findings if not (finding in seen or seen.add(finding)))  # type: ignore[func-returns-value]
    listed = sorted(islice(found, MAX_FINDINGS), key=lambda finding: (finding.path, finding.code))
    rest = sum(1 for _ in islice(found, MAX_COUNTED))
    more = "{}; and at least {} more in this document" if rest == MAX_COUNTED else "{}; and {} more in this document"
    return with_rest(listed, rest, more)


def _translate(departure: Departure) -> Iterator[Finding]:
    keyword, value, found = departure.keyword, departure.value, shown(departure.value)
    if keyword in ("anyOf", "oneOf") and isinstance(value, dict):
        for inner in departure.context:  # those of the object of `anyOf: [object, null]`
            if inner.schema != {"type": "null"}:
                yield from _translate(inner)
        return
    if keyword == "additionalProperties":
        known = list(departure.schema.get("properties", {}))
        for key in value:
            if key not in known:
                path = pointer([*departure.path, key[:200]])
                yield UNKNOWN_KEY.finding(path, Text("unknown key {}{}", shown(key), _nearest(key, known)))
        return
    if keyword == "required":
        properties = departure.schema.get("properties", {})
        for key in departure.schema["required"]:
            if key not in value:
                described = properties.get(key, {}).get("description", "required")
                missing = Text("missing key {}: {}", shown(key), described)
                yield MISSING_KEY.finding(pointer([*departure.path, key]), missing)
        return
    wanted: Any = departure.schema.get(keyword)
    rule, message = WRONG_TYPE, Text("expected {} {}, found {}", keyword, shown(wanted), found)
    if keyword in ("anyOf", "oneOf"):
        message = Text("expected an object or null, found {}", found)
    elif keyword == "type":
        message = Text("expected {}, found {}", wanted if isinstance(wanted, str) else " or ".join(wanted), found)
    elif keyword == "minimum":
        rule, message = OUT_OF_RANGE, Text("expected at least {}, found {}", wanted, found)
    elif keyword == "maximum":
        rule, message = OUT_OF_RANGE, Text("expected at most {}, found {}", wanted, found)
    elif keyword == "pattern":
        message = Text("expected a text that matches {}, found {}", wanted, found)
    elif keyword in ("enum", "const"):
        rule, message = NOT_A_CHOICE, _choice_message(value, wanted if keyword == "enum" else [wanted])
    yield rule.finding(pointer(departure.path), message)


def _choice_message(found: Any, choices: list[Any]) -> Text:
    if len(choices) == 1:
        return Text("expected {}, found {}", shown(choices[0]), shown(found))
    near = _nearest(found, [choice for choice in choices if isinstance(choice, str)])
    return Text("found {}{}", shown(found), near or Text("; expected one of: {}", ", ".join(map(shown, choices))))


def _nearest(found: Any, choices: list[str], cutoff: float = 0.6) -> str:
    if not isinstance(found, str) or len(found) > 100:
        return ""
    from difflib import get_close_matches

    near = get_close_matches(found, choices, n=1, cutoff=cutoff)
    return Text("; did you mean {}?", shown(near[0])) if near else ""

"""A document against its JSON Schema, each departure on one line with its JSON pointer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from llmperf.types import Finding
from llmperf.validation.catalogue import Rule
from llmperf.validation.counting import with_the_rest
from llmperf.validation.reading import pointer, shown
from llmperf.validation.rules.documents import MISSING_KEY, NOT_A_CHOICE, OUT_OF_RANGE, UNKNOWN_KEY, WRONG_TYPE

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

MAX_FINDINGS = 50
"""Of one document; the last of them says how many more there are."""
MAX_COUNTED = 1000
"""Of those beyond; a hostile document has millions."""


def schema_findings(name: str, document: Any) -> list[Finding]:
    """How a document departs from the schema of that name; at most `MAX_FINDINGS`."""
    if name == "record":
        return _record_findings(document)
    if _accepts(name, document):
        return []
    return _findings(_validator(name), document)


def _accepts(name: str, document: Any) -> bool:
    """Whether all is well, told a hundred times faster than what is not; False too where that cannot be told."""
    try:
        return bool(_quick_validator(name).is_valid(document))
    except (ValueError, TypeError, RecursionError):
        return False


def strict_findings(name: str, document: Any) -> list[Finding]:
    """The same where a whole number has to be written as one, without a point: what the types take."""
    return _findings(_validator(name), document)


def _record_findings(document: Any) -> list[Finding]:
    """A record's `kind` says which of the schemas it is held against."""
    kinds = _record_kinds()
    if not isinstance(document, dict):
        return [WRONG_TYPE.finding("", f"expected an object, found {shown(document)}")]
    kind = document.get("kind")
    if kind is None:
        return [MISSING_KEY.finding("/kind", f"expected one of: {', '.join(kinds)}")]
    if not isinstance(kind, str) or kind not in kinds:
        return [NOT_A_CHOICE.finding("/kind", _choice_message(kind, list(kinds)))]
    return _findings(kinds[kind], document)


@cache
def _validator(name: str) -> Draft202012Validator:
    import llmperf_schemas

    made: Draft202012Validator = _strict()(llmperf_schemas.load(name))
    return made


@cache
def _strict() -> Any:
    """The class of validators to which 3.0 is no integer, as it is none to the types; JSON Schema alone takes it."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, one: type(one) is int)
    return extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]


@cache
def _quick_validator(name: str) -> Any:
    import jsonschema_rs
    import llmperf_schemas

    return jsonschema_rs.validator_for(llmperf_schemas.load(name))


@cache
def _record_kinds() -> dict[str, Draft202012Validator]:
    import llmperf_schemas

    root = llmperf_schemas.load("record")
    bodies = [root["$defs"][option["$ref"].rpartition("/")[2]] for option in root["oneOf"]]
    return {body["properties"]["kind"]["const"]: _strict()({**body, "$defs": root["$defs"]}) for body in bodies}


def _findings(validator: Draft202012Validator, document: Any) -> list[Finding]:
    errors = (finding for error in validator.iter_errors(document) for finding in _translate(error))
    told = sorted(islice(errors, MAX_FINDINGS), key=lambda one: (one.path, one.code))
    rest = sum(1 for _ in islice(errors, MAX_COUNTED))
    return with_the_rest(told, rest, "in this document", least=rest == MAX_COUNTED)


def _translate(error: ValidationError) -> Iterator[Finding]:
    if error.validator in ("anyOf", "oneOf"):
        yield from _of_the_object(error)
    elif error.validator == "additionalProperties":
        yield from _unknown_keys(error)
    elif error.validator == "required":
        yield from _missing_keys(error)
    else:
        rule, message = _value_message(error)
        yield rule.finding(pointer(list(error.absolute_path)), message)


def _of_the_object(error: ValidationError) -> Iterator[Finding]:
    """Of `anyOf: [object, null]` only the object's errors are of use, unless it is neither."""
    inner = [one for one in error.context or () if one.schema != {"type": "null"}]
    if isinstance(error.instance, dict):
        for one in inner:
            yield from _translate(one)
    else:
        path = pointer(list(error.absolute_path))
        yield WRONG_TYPE.finding(path, f"expected an object or null, found {shown(error.instance)}")


def _unknown_keys(error: ValidationError) -> Iterator[Finding]:
    instance, schema = _sides(error)
    known = list(schema["properties"])
    for key in instance:
        if key not in known:
            path = pointer([*error.absolute_path, key[:200]])
            yield UNKNOWN_KEY.finding(path, f"unknown key {shown(key)}{_nearest(key, known)}")


def _missing_keys(error: ValidationError) -> Iterator[Finding]:
    _, schema = _sides(error)
    for key in schema["required"]:
        # jsonschema raises one error for each missing key and names it only in its message
        if error.message.startswith(f"{key!r} is"):
            path = pointer([*error.absolute_path, key])
            yield MISSING_KEY.finding(path, f"missing key {shown(key)}: {_description(schema, key)}")


def _sides(error: ValidationError) -> tuple[Any, Any]:
    """What was found and the schema it was held against."""
    return error.instance, error.schema


def _description(schema: Any, key: str) -> str:
    return str(schema.get("properties", {}).get(key, {}).get("description", "required"))


def _value_message(error: ValidationError) -> tuple[Rule, str]:
    found = shown(error.instance)
    wanted: Any = error.validator_value
    if error.validator == "type":
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        return WRONG_TYPE, f"expected {' or '.join(names)}, found {found}"
    if error.validator == "minimum":
        return OUT_OF_RANGE, f"expected at least {wanted}, found {found}"
    if error.validator == "maximum":
        return OUT_OF_RANGE, f"expected at most {wanted}, found {found}"
    choices = wanted if error.validator == "enum" else [wanted]
    return NOT_A_CHOICE, _choice_message(error.instance, choices)


def _choice_message(found: Any, choices: list[Any]) -> str:
    if len(choices) == 1:
        return f"expected {shown(choices[0])}, found {shown(found)}"
    near = _nearest(found, [one for one in choices if isinstance(one, str)])
    listed = f"; expected one of: {', '.join(map(shown, choices))}"
    return f"found {shown(found)}{near or listed}"


def _nearest(found: Any, choices: list[str]) -> str:
    if not isinstance(found, str) or len(found) > 100:
        return ""
    from difflib import get_close_matches

    near = get_close_matches(found, choices, n=1, cutoff=0.6)
    return f"; did you mean {shown(near[0])}?" if near else ""

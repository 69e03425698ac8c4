"""`llmperf watch --propose LOG`: a log profile from the lines that a program repeats, with what is not sure marked."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from math import isclose
from pathlib import Path

from llmperf import read_toml
from llmperf.errors import UserError

from llmperf_watch.profiles import MAX_LINE, SCALE, UNITS, profile_field
from llmperf_watch.reading import ESCAPES

MOST_LINES = 200_000
LEAST = 5
"""Lines of one form that make it the form of a step."""
NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?")
BEFORE = re.compile(r"[A-Za-z][\w /.()-]{0,30}[\W_]*$")
"""A name before a number, with what stands between them."""
ALONE = re.compile(r"[\s|,;\[-]*")
"""What stands before a number that only its unit explains."""
SCALED = re.compile(r"[KMGBT](?![A-Za-z\d])")
"""A letter behind a number by which a profile multiplies it."""
UNIT = re.compile(r"[ )\]]*([A-Za-z]+(?:/[A-Za-z]+)+|(?:it|%|[A-Za-z]{1,4})(?![\w/]))")
"""What may be the unit of the number before it."""


def proposed(lines: Iterable[str], name: str) -> str:
    """The profile as TOML; UserError where no form of line with a number repeats."""
    forms: Counter[str] = Counter()
    examples: dict[str, list[list[str]]] = defaultdict(list)
    shown: dict[str, str] = {}
    for line in islice(lines, MOST_LINES):
        text = ESCAPES.sub("", line)[:MAX_LINE].rstrip()
        values = NUMBER.findall(text)
        form = NUMBER.sub("{}", text)
        if values:
            forms[form] += 1
            examples[form] = [*examples[form][:50], values]
            shown.setdefault(form, text)
    scored = {form: count * len(examples[form][0]) * (3 if _growing(form, examples[form]) else 1)
              for form, count in forms.items() if count >= LEAST}  # fmt: skip
    if not scored:
        raise UserError(f"--propose {name}: expected {LEAST} lines of one form with a number, found none")
    form = max(scored, key=scored.__getitem__)
    found = list(_fields(form, examples[form], shown[form]))
    marks = [text.partition("{}")[0].strip() for text, *_ in found]
    marks = [mark for mark in marks if len(mark) > 1][:3]
    table = [f"# {shown[form]}", "[[line]]", f"marks = {json.dumps(marks, ensure_ascii=True)}"]
    known: set[str] = set()
    for text, field, unit, sure in found:
        quoted = json.dumps(text, ensure_ascii=True)
        value = f'{{ text = {quoted}, unit = "{unit}" }}' if unit else quoted
        sure = sure and field not in known
        table.append(f"{field} = {value}" if sure else f"# ? {field or ''}".rstrip() + f" = {value}")
        known |= {str(field)} if sure else set()
    if "step" not in known:
        table.append('# ? step = "..."    without it, state --steps-per-line')
    return "\n".join(['title = "?"', f"source = {json.dumps(name)}", "", *table, ""])


def _growing(form: str, values: list[list[str]]) -> set[int]:
    """The places of the whole numbers that grow from line to line."""
    places = set()
    for place in range(form.count("{}")):
        column = [row[place].replace(",", "") for row in values if place < len(row)]
        if len(column) >= LEAST and all(text.isdecimal() for text in column):
            numbers = list(map(int, column))
            places |= {place} if all(here > before for before, here in pairwise(numbers)) else set()
    return places


def _fields(form: str, values: list[list[str]], line: str) -> Iterator[tuple[str, str | None, str | None, bool]]:
    """Of each number its text in a profile, the field that it seems to be, its unit, and whether both are sure."""
    words = read_toml(Path(__file__).with_suffix(".toml"))
    parts, growing = form.split("{}"), _growing(form, values)
    for place, (part, after) in enumerate(pairwise(parts)):
        if ":" in (part, after) and len(parts) > 2:
            continue  # a time of day, or hours and minutes
        if place and (before := UNIT.match(part)) is not None and part[before.end() :].strip(" ="):
            part = part[before.end() :]
        named = BEFORE.search(part)
        name = "" if named is None else named[0].lower()
        scaled = SCALED.match(after)
        glued = after[:1].isalpha() and scaled is None
        behind = UNIT.match(after if scaled is None else after[1:])
        token = "" if behind is None else behind[1]
        by_unit = next((field for field, pattern in words["after"].items() if re.fullmatch(pattern, token)), None)
        fits = (field for field, pattern in words["before"].items() if field != "step" and re.search(pattern, name))
        field = "step" if place in growing and re.search(words["before"]["step"], name) else next(fits, None)
        unit = words["units"].get(token) if field != "step" else None
        in_name = (unit for text, unit in words["units"].items()
                   if re.search(rf"(?<![a-z/]){re.escape(text.lower())}(?![a-rt-z])", name))  # fmt: skip
        sure = field is not None and not (glued and unit is None and by_unit is None)
        if field is None or field == "throughput":
            sure = by_unit is not None and (field == "throughput" or ALONE.fullmatch(part) is not None)
            field = by_unit or ("tokens_per_second" if field else None)
        elif by_unit not in (None, field):
            sure = False
        if named is None and field is None:
            continue
        if field in words["measured"]:
            unit = unit or next(in_name, None)
            sure = sure and unit in words["measured"][field] and (scaled is None or field != "memory_bytes")
        elif unit is not None and unit != "1/ms":
            unit = None
        column = [row[place] for row in values if place < len(row)]
        numbers = [float(text.replace(",", "")) for text in column]
        if field in words["varying"]["fields"]:
            sure = sure and len(set(numbers)) > 1
            if field == "step_seconds" and named is not None:  # one that only grows is since the start
                sure = sure and any(here <= then for then, here in pairwise(numbers))
        sure = sure and re.search(words["other"]["names"], name) is None
        text = f"{part.strip()[-1:]} {{}} {token}".strip() if named is None else f"{named[0].strip()} {{}}"
        if sure and field is not None:
            # the text must lead to this very number
            try:
                read = profile_field(field, {"text": text, "unit": unit or ""}, "").value(line)
            except UserError:
                read = None
            factor = UNITS[unit or ""] * SCALE["" if scaled is None else scaled[0]]
            sure = read is not None and isclose(read, numbers[0] * factor, rel_tol=1e-9)
        yield text, field, unit, sure

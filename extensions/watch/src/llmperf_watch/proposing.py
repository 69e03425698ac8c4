"""`llmperf watch --propose LOG`: a log profile from the lines that a program repeats, with what is not sure marked."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
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


def proposed(lines: Iterable[str], name: str) -> str:
    """The profile as TOML; UserError where no form of line with a number repeats."""
    forms: Counter[str] = Counter()
    examples: dict[str, list[str]] = defaultdict(list)
    for line in islice(lines, MOST_LINES):
        text = ESCAPES.sub("", line)[:MAX_LINE].rstrip()
        if "\0" in text[:1000]:
            raise UserError(f"--propose {name}: expected a log in UTF-8, found bytes of 0, as in UTF-16")
        form, count = NUMBER.subn("{}", text)
        forms[form] += bool(count)
        if count and len(examples[form]) < 50:
            examples[form].append(text)
    columns = {form: list(zip(*map(NUMBER.findall, examples[form]), strict=True))
               for form, count in forms.items() if count >= LEAST}  # fmt: skip
    if not columns:
        raise UserError(f"--propose {name}: expected {LEAST} lines of one form with a number, found none")
    form = max(
        columns, key=lambda form: forms[form] * len(columns[form]) * (3 if any(map(_grows, columns[form])) else 1)
    )
    found = list(_fields(examples[form][0], columns[form]))
    marks = [mark for text, *_ in found if len(mark := text.partition("{}")[0].strip()) > 1][:3]
    table = [f"# {examples[form][0]}", "[[line]]", f"marks = {json.dumps(marks, ensure_ascii=True)}"]
    known: set[str | None] = set()
    for text, field, unit, sure in found:
        quoted = json.dumps(text, ensure_ascii=True)
        value = f'{{ text = {quoted}, unit = "{unit}" }}' if unit else quoted
        sure = sure and field not in known
        table.append(f"{field} = {value}" if sure else f"# ? {field or ''}".rstrip() + f" = {value}")
        known |= {field} if sure else set()
    if "step" not in known:
        table.append('# ? step = "..."    without it, state --steps-per-line')
    return "\n".join(['title = "?"', f"source = {json.dumps(name)}", "", *table, ""])


def _grows(column: Sequence[str]) -> bool:
    """Check whether whole numbers grow from line to line."""
    numbers = [int(text) if text.isdecimal() else -1 for text in (text.replace(",", "") for text in column)]
    return min(numbers) >= 0 and all(here > before for before, here in pairwise(numbers))


def _fields(line: str, columns: Sequence[Sequence[str]]) -> Iterator[tuple[str, str | None, str | None, bool]]:
    """Of each number its text in a profile, the field that it seems to be, its unit, and whether both are sure."""
    words = read_toml(Path(__file__).with_suffix(".toml"))
    regex, units, parts = words["text"], words["units"], NUMBER.split(line)
    for column, (part, after) in zip(columns, pairwise(parts), strict=True):
        if ":" in (part, after):
            continue  # a time of day, or hours and minutes
        if part is not parts[0] and (before := re.match(regex["unit"], part)) and part[before.end() :].strip(" ="):
            part = part[before.end() :]
        named = re.search(regex["name"], part)
        name = "" if named is None else named[0].lower()
        scaled = re.match(regex["scaled"], after)
        token = (re.match(regex["unit"], after if scaled is None else after[1:]) or ("", ""))[1]
        by_unit = next((field for field, pattern in words["after"].items() if re.fullmatch(pattern, token)), None)
        fits = (field for field, pattern in words["before"].items() if re.search(pattern, name))
        field = "step" if _grows(column) and re.search(regex["step"], name) else next(fits, None)
        unit = units.get(token) if field != "step" else None
        sure = by_unit in (None, field) and (scaled is not None or not after[:1].isalpha() or bool(unit or by_unit))
        if field is None or field == "throughput":
            sure = by_unit is not None and (field is not None or re.fullmatch(regex["alone"], part) is not None)
            field = by_unit or ("tokens_per_second" if field else None)
        if named is None and field is None:
            continue
        if field in words["measured"]:
            unit = unit or next((unit for text, unit in units.items() if re.search(
                rf"(?<![a-z/]){re.escape(text.lower())}(?![a-rt-z])", name)), None)  # fmt: skip
            sure = sure and unit in words["measured"][field] and (scaled is None or field != "memory_bytes")
        elif unit != "1/ms":
            unit = None
        numbers = [float(text.replace(",", "")) for text in column]
        if field in words["varying"]["fields"]:  # a time that only grows is since the start
            total = field == "step_seconds" and named and all(here > then for then, here in pairwise(numbers))
            sure = sure and len(set(numbers)) > 1 and not total
        text = f"{part.strip()[-1:]} {{}} {token}".strip() if named is None else f"{named[0].strip()} {{}}"
        sure = sure and not re.search(regex["other"], name) and text.count("{}") == 1 and text[0] != "{"
        if sure and field is not None:  # the text must lead to this very number
            read = profile_field(field, {"text": text, "unit": unit or ""}, "").value(line)
            factor = UNITS[unit or ""] * SCALE["" if scaled is None else scaled[0]]
            sure = read is not None and isclose(read, numbers[0] * factor, rel_tol=1e-9)
        yield text, field, unit, sure

"""`llmperf watch --propose LOG`: a log profile from the lines that a program repeats, with what is not sure marked."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path

from llmperf import read_toml
from llmperf.errors import UserError

from llmperf_watch.profiles import MAX_LINE
from llmperf_watch.reading import ESCAPES

MOST_LINES = 200_000
LEAST = 5
"""Lines of one form that make it the form of a step."""
NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?")
BEFORE = re.compile(r"[A-Za-z][\w /.()-]{0,30}[\W_]*$")
"""A name before a number, with what stands between them."""


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
    scored = {form: count * len(examples[form][0]) * (3 if _step_place(form, examples[form]) is not None else 1)
              for form, count in forms.items() if count >= LEAST}  # fmt: skip
    if not scored:
        raise UserError(f"--propose {name}: expected {LEAST} lines of one form with a number, found none")
    form = max(scored, key=scored.__getitem__)
    fields = list(_fields(form, examples[form]))
    marks = [before.strip() for before, _, _ in fields if len(before.strip()) > 1 and "{}" not in before][:3]
    table = [f"# {shown[form]}", "[[line]]", f"marks = {json.dumps(marks, ensure_ascii=True)}"]
    known: set[str] = set()
    for before, field, unit in fields:
        text = json.dumps(before if "{}" in before else f"{before.strip()} {{}}", ensure_ascii=True)
        value = f'{{ text = {text}, unit = "{unit}" }}' if unit else text
        sure = field is not None and field not in known
        table.append(f"{field} = {value}" if sure else f"# ? = {value}")
        known |= {field} if field else set()
    if "step" not in known:
        table.append('# ? step = "..."    without it, state --steps-per-line')
    return "\n".join(['title = "?"', f"source = {json.dumps(name)}", "", *table, ""])


def _step_place(form: str, values: list[list[str]]) -> int | None:
    """The place of the number that grows from line to line, a whole one."""
    for place in range(form.count("{}")):
        column = [row[place].replace(",", "") for row in values if place < len(row)]
        if all(text.isdecimal() for text in column):
            numbers = list(map(int, column))
            if len(numbers) >= LEAST and all(here > before for before, here in pairwise(numbers)):
                return place
    return None


def _fields(form: str, values: list[list[str]]) -> Iterator[tuple[str, str | None, str | None]]:
    """Of each number with a name before it: that text, the field that it seems to be, and its unit."""
    words = read_toml(Path(__file__).with_suffix(".toml"))
    parts, growing = form.split("{}"), _step_place(form, values)
    for place, (part, after) in enumerate(pairwise(parts)):
        named, after = BEFORE.search(part), after.lstrip()
        lower = "" if named is None else named[0].lower()
        field = next((field for field, pattern in words["before"].items() if re.search(pattern, lower)), None)
        behind = next(
            ((found[0], name) for name, pattern in words["after"].items() if (found := re.match(pattern, after))), None
        )
        if behind is not None and field is None:
            yield f"{part.strip()[-1:]} {{}} {behind[0]}".strip(), behind[1], words["units"].get(behind[0])
            continue
        if named is None:
            continue
        if field == "step" and place != growing:
            field = None
        units = words["units"].items()
        unit = next((unit for text, unit in units if after.lstrip(" )").startswith(text)), None)
        unit = unit or next((unit for text, unit in units if f"({text.lower()})" in lower), None)
        unit = unit or words["needed"].get(field)
        yield named[0], field, unit if field not in ("step", "loss", None) else None

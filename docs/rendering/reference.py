"""Reference pages of what core defines: settings, hooks, types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import llmperf.types
import llmperf_vendorkit
from llmperf import hookspecs
from llmperf.cases.fields import dataclass_in, hints
from llmperf.cases.settings import describe
from llmperf.files.user_files import read_toml
from llmperf.types.models import Model
from llmperf.types.spec import Case, Contract, DataSource, Tuning
from llmperf_sweep.matrix_file import MatrixFile
from llmperf_vendorkit.readings import FIGURES, TEXTS

from rendering.fields import class_description, field_descriptions

ROOT = Path(__file__).resolve().parents[2]
NOTE = "<!-- Rendered by `./dev python docs/render.py`; edit the docstrings, not this page. -->"
UNITS = {
    "seconds": "s",
    "bytes": "bytes",
    "gib": "GiB",
    "watts": "W",
    "joules": "J",
    "percent": "%",
    "tokens": "tokens",
    "steps": "steps",
    "seq_len": "tokens",
    "global_batch": "sequences",
    "micro_batch": "sequences",
}
"""Units by the end of a field's name."""
TEXTS_OF_PAGES = read_toml(Path(__file__).with_name("pages.toml"))
MOST_MEMBERS = 6
"""Most members of a type that has no heading of its own."""
ELSEWHERE = {
    **dict.fromkeys(("Contract", "Tuning", "DataSource", "Optimizer", "Lora"), "[settings](settings.md)"),
    **dict.fromkeys(("Model", "Mixture", "Latent", "RopeScaling"), "[model files](model-files.md)"),
}
"""Types whose fields are the keys of another page."""


def page(name: str, *parts: str) -> str:
    """A page of Markdown with its title and its text of `pages.toml`."""
    own = TEXTS_OF_PAGES[name]
    return "\n\n".join([NOTE, f"# {own['title']}", *([own["text"]] if "text" in own else []), *parts]) + "\n"


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown without its empty columns; pipes and line breaks in cells are escaped."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in [columns, *rows]]
    cells = [list(row) for row in zip(*(column for column in zip(*cells, strict=True) if any(column[1:])), strict=True)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * len(cells[0]), *lines[1:]])


def unit(name: str) -> str:
    """The unit of a field by its name; empty if it has none."""
    return next((unit for end, unit in UNITS.items() if name == end or name.endswith(f"_{end}")), "")


def default(field: Field[Any]) -> str:
    """The default of a field, as it is written in TOML; a function has no text there."""
    if field.default is not MISSING:
        value = field.default
    elif field.default_factory is not MISSING:
        value = field.default_factory()
    else:
        return "required"
    if callable(value):
        return ""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{list(value) if isinstance(value, tuple) else value}`" if not is_dataclass(value) else ""


def setting_rows(kind: type, prefix: str = "") -> Iterator[list[str]]:
    """Path, type, unit, default and meaning of each field below a dataclass that can be set."""
    described = field_descriptions(kind)
    for field in fields(kind):
        annotation = hints(kind)[field.name]
        inner = dataclass_in(annotation)
        if inner is None:
            meaning = described.get(field.name, "").replace("null", "none")
            yield [f"`{prefix}{field.name}`", describe(annotation), unit(field.name), default(field), meaning]
        else:
            yield from setting_rows(inner, f"{prefix}{field.name}.")


def settings_page() -> str:
    """Every path of `--set`."""
    columns = ("Path", "Type", "Unit", "Default", "Meaning")
    parts = []
    for kind, prefix in ((Contract, "contract."), (Tuning, "tuning."), (DataSource, "data.")):
        parts += [f"## {prefix[:-1]}", class_description(kind), table(columns, setting_rows(kind, prefix))]
    options = [
        [match.group(1), f"[{readme.parent.name}](../../frameworks/{readme.parent.name}/README.md)", match.group(2)]
        for readme in sorted(ROOT.glob("frameworks/*/README.md"))
        for line in readme.read_text().splitlines()
        if (match := re.match(r"\| (`framework\.\w+`) \| (.*) \|$", line))
    ]
    parts += [
        "## framework",
        "Options of one framework, as its README lists them; it refuses others.",
        table(("Path", "Framework", "Meaning"), options),
    ]
    return page("settings", *parts)


def file_page(name: str, kind: type) -> str:
    """The fields of a TOML file that becomes a dataclass."""
    return page(name, table(("Key", "Type", "Unit", "Default", "Meaning"), setting_rows(kind)))


def hooks_page() -> str:
    """Every hook, in the order of a run."""
    parts = []
    for name, owners in hookspecs.OWNERS.items():
        function = getattr(hookspecs, name)
        text, _, example = (inspect.getdoc(function) or "").partition(">>> ")
        parts += [
            f"## {name}",
            f"```python\ndef {signature(name, function)}\n```",
            f"Answered by: {', '.join(owners)}. {text.strip()}",
        ]
        if example:
            parts.append(
                "```python\n" + re.sub(r"^(>>>|\.\.\.) ?", "", f">>> {example}", flags=re.MULTILINE).strip() + "\n```"
            )
    return page("hooks", *parts)


def types_page() -> str:
    """Every public type, by module."""
    parts = []
    modules: dict[str, list[type]] = {"llmperf": [llmperf.TokenBatches]}
    for name in llmperf.types.__all__:
        value = getattr(llmperf.types, name)
        if inspect.isclass(value):
            modules.setdefault(value.__module__, []).append(value)
    for module, kinds in sorted(modules.items()):
        parts += [f"## {module}", (inspect.getdoc(import_module(module)) or "").strip(), *type_parts(kinds)]
    return page("types", *parts)


def vendorkit_page() -> str:
    """Every public class and function of the vendor kit, and the names of cells that it understands."""
    public = {name: getattr(llmperf_vendorkit, name) for name in llmperf_vendorkit.__all__}
    functions = [
        (f"`{signature(name, function)}`", inspect.getdoc(function) or "")
        for name, function in public.items()
        if inspect.isfunction(function)
    ]
    texts = ", ".join(f"`{name}`" for name in TEXTS)
    cells = [
        (f"`{name}`", f"`{figure.field}`", ", ".join(figure.units), "{:g} to {:g}".format(*figure.limits))
        for name, figure in FIGURES.items()
    ]
    return page(
        "vendorkit",
        (inspect.getdoc(llmperf_vendorkit) or "").strip(),
        "## Functions",
        table(("Function", "Meaning"), functions),
        "## Names of cells",
        f"{texts} hold a text, and `index`, `card` and `chip` a whole number. The names below (`FIGURES`) hold a"
        " number, in the unit of the name, which one of the units may follow; a number beyond the plausible ones is"
        " a Misfit. A cell of any other name is a detail of the device.",
        table(("Cell", "Field", "Units", "Plausible"), cells),
        "## Classes",
        *type_parts([value for value in public.values() if inspect.isclass(value)]),
    )


def signature(name: str, function: Callable[..., Any]) -> str:
    """A function as its reader calls it: without `self`, quotes and defaults that name addresses of objects."""
    text = str(inspect.signature(function)).replace("'", "")
    text = re.sub(r"<bound method ([\w.]+) of [^>]*>+", r"\1", text)
    return f"{name}{re.sub(r'^[(](self|cls)(, |(?=[)]))', '(', text)}"


def type_parts(kinds: Iterable[type]) -> Iterator[str]:
    """One table of the types with few members, then each other type with a heading and a table of its own."""
    small, parts = [], []
    for kind in kinds:
        text, members = (inspect.getdoc(kind) or "").strip(), list(member_rows(kind))
        if kind.__name__ in ELSEWHERE:
            text, members = f"{text} Fields: {ELSEWHERE[kind.__name__]}.", [row for row in members if not row[1]]
        if len(members) > MOST_MEMBERS or "\n\n" in text:
            parts += [f"### {kind.__name__}", text]
            parts += [table(("Member", "Type", "Default", "Meaning"), members)] if members else []
        else:
            small += [(f"**`{kind.__name__}`**", "", "", text), *((f".{name}", *rest) for name, *rest in members)]
    if small:
        yield table(("Type and its members", "Type", "Default", "Meaning"), small)
    yield from parts


def member_rows(kind: type) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each public field, attribute, property and method."""
    described = field_descriptions(kind)
    if is_dataclass(kind):
        for field in fields(kind):
            yield f"`{field.name}`", f"`{field.type}`", default(field), described.get(field.name, "")
    else:
        for name, text in described.items():
            if not name.startswith("_"):
                yield f"`{name}`", "", "", text
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"`{name}`", "", "", inspect.getdoc(member.fget) or ""
        elif inspect.isfunction(function := getattr(member, "__func__", member)):
            yield f"`{signature(name, function)}`", "", "", inspect.getdoc(function) or ""


PAGES = {
    "settings": settings_page,
    "case-files": lambda: file_page("case-files", Case),
    "model-files": lambda: file_page("model-files", Model),
    "matrix-files": lambda: file_page("matrix-files", MatrixFile),
    "hooks": hooks_page,
    "types": types_page,
    "vendorkit": vendorkit_page,
}
"""Name of each page without `.md`, and what renders it."""

"""Reference pages of what core and the plugins of this project bring: models, cases, overlays, reporters, rules."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

from llmperf.cases.library import library, read_named
from llmperf.cases.overlays import CONDITIONS, Facts
from llmperf.files.user_files import read_toml
from llmperf.plugins.discovery import discover
from llmperf.plugins.loading import Plugins
from llmperf.types.models import Model
from llmperf.types.spec import Case

from rendering.fields import field_descriptions
from rendering.reference import TEXTS_OF_PAGES, page, table


@cache
def plugins() -> tuple[Plugins, ...]:
    """Core, and each installed plugin of this project by itself."""
    ours = [found for found in discover() if found.distribution.startswith("llmperf-")]
    return (Plugins(), *(Plugins([found]) for found in ours))


def files(shelf: str) -> Iterator[tuple[str, Any]]:
    """Each file of a shelf with the package that ships it."""
    for owner, folder in library(*plugins()).folders:
        for path in sorted((folder / shelf).glob("*.toml")):
            yield package(owner), path


def package(owner: str) -> str:
    """`vendor:nvidia` as it is shown; everything of core is `core`."""
    role, _, name = owner.partition(":")
    return "core" if role == "core" else f"{role} {name}"


def models_page() -> str:
    """Every model."""
    rows = []
    for owner, path in files("models"):
        model = read_named(path, Model)
        rows.append(
            (f"`{model.name}`", model.title, model.family, f"{model.nominal_parameters:,}", owner, model.source)
        )
    columns = ("Name", "Title", "Family", "Nominal parameters", "From", "Source")
    return page("models", table(columns, rows))


def cases_page() -> str:
    """Every case."""
    rows = []
    for owner, path in files("cases"):
        case = read_named(path, Case)
        rows.append((f"`{case.name}`", case.title, case.description, f"`{case.contract.model}`", owner, case.source))
    columns = ("Name", "Title", "Description", "Model", "From", "Source")
    return page("cases", table(columns, rows))


def overlays_page() -> str:
    """Every overlay, and the conditions of `[when]`."""
    rows = []
    for owner, path in files("overlays"):
        tables = read_toml(path)
        when = "; ".join(f"{key} = {value}" for key, value in tables.pop("when").items())
        settings = ", ".join(f"`{name}.{key}`" for name, inner in tables.items() for key in inner)
        rows.append((f"`{path.stem}`", when, settings, owner))
    conditions = [(f"`{name}`", field_descriptions(Facts)[name]) for name in CONDITIONS]
    return page("overlays", table(("Condition", "Meaning"), conditions), table(("Name", "When", "Sets", "From"), rows))


HOOKS = {
    "llmperf_launchers": ("Launchers", "What starts one agent on each node.", ()),
    "llmperf_document_kinds": ("Kinds of document", "What `llmperf validate` and `llmperf report` read.", ("title",)),
    "llmperf_reporters": ("Reporters", "`llmperf report --format NAME` chooses one.", ()),
}
"""Hooks whose answers have names, and what is shown of each answer."""


def doors_page() -> str:
    """Launchers, kinds of document and reporters."""
    parts = []
    for hook, (title, text, attributes) in HOOKS.items():
        rows = items(hook, attributes)
        names = [name.capitalize() for name in attributes] or ["Meaning"]
        parts += [f"## {title}", f"{text} Hook: [`{hook}`](hooks.md#{hook})."]
        parts += [table(("Name", *names, "From"), sorted(rows))] if rows else []
    return page("doors", *parts)


def items(hook: str, attributes: tuple[str, ...], **arguments: Any) -> set[tuple[str, ...]]:
    """A row for each answer to a hook: name, attributes or else the first line of its class's docstring, package."""
    return {
        (
            f"`{getattr(item, 'code', None) or item.name}`",
            *(
                [str(getattr(item, name)) for name in attributes]
                or [(inspect.getdoc(type(item)) or "").partition("\n")[0]]
            ),
            package(owner),
        )
        for loaded in plugins()
        for owner, item in loaded.collect_items(hook, **arguments)
    }


def rules_page() -> str:
    """Every rule; the page of each is made from it and from `data/rules.toml` of its package."""
    rows = sorted(items("llmperf_rules", ("severity", "title"), kind=None))
    return page("rules", table(("Code", "Severity", "Rule", "From"), rows))


def contents_page() -> str:
    """The list of pages."""
    lines = [f"- [{name}]({name}.md): {own['listed']}" for name, own in TEXTS_OF_PAGES.items() if "listed" in own]
    lines.append("- [rules](../rules/README.md): the rules of `llmperf validate`")
    lines.append("- [own files](../own-files.md): writing a model, a case and an overlay")
    return page("README", "\n".join(lines))


PAGES = {
    "models": models_page,
    "cases": cases_page,
    "overlays": overlays_page,
    "doors": doors_page,
    "README": contents_page,
}
"""Name of each page without `.md`, and what renders it."""

"""What the pages of a site share: elements that escape foreign text, head, navigation, footer, tables, style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import PurePosixPath
from typing import Any

import llmperf
from llmperf.reporting import printable, word

from llmperf_html.document import CHARTS, WORDS, embedded, library

LONGEST = 20_000
"""Characters of one text."""
EMPTY = frozenset({"br", "link", "meta", "rect", "wbr"})
"""Elements without content."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | None | Iterable["Child"]


def element(name: str, /, *children: Child, **attributes: str | int | float | None) -> Html:
    """An element of HTML or XML without what is None; of attributes, `_` becomes `-`, `__` `:`, `class_` `class`."""
    named = "".join(
        f' {key.rstrip("_").replace("__", ":").replace("_", "-")}="{escape(printable(str(value), LONGEST))}"'
        for key, value in attributes.items() if value is not None
    )  # fmt: skip
    if name in EMPTY:
        return Html(f"<{name}{named}/>")
    return Html(f"<{name}{named}>{joined(children)}</{name}>")


def joined(children: Iterable[Child], between: str = "") -> Html:
    """Children one after the other."""
    return Html(between.join(map(_text, children)))


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(printable(child, LONGEST))
    return joined(child)


POLICY = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; base-uri 'none'; form-action 'none'"
"""Only the site's own script and style; `file:` is for sites that are opened from a folder."""
STYLE, SCRIPT = "assets/site.css", "assets/charts.js"
"""Files that all pages share."""
STYLES = ("uplot/uPlot.min.css", "page.css", "bars.css", "site.css")
SCRIPTS = (CHARTS, "dom.js", "bars.js", "plot.js", "charts.js", "site.js")
PAGES = {
    "index.html": "Leaderboard",
    "devices.html": "Devices",
    "vendors.html": "Vendors",
    "frameworks.html": "Frameworks",
    "changes.html": "Changes",
}
FEED = "feed.xml"


def assets() -> dict[str, str]:
    """The shared files by their path in the site."""
    return {path: "\n".join(map(library, names)) + "\n" for path, names in ((STYLE, STYLES), (SCRIPT, SCRIPTS))}


@dataclass(frozen=True)
class Frame:
    """Shared parts of the pages of a site."""

    title: str
    language: str
    """`en` or `zh`."""
    prices: str | None = None
    """The file of prices that costs were computed with."""

    def word(self, english: str, **values: object) -> str:
        """A text in the language of the site."""
        return word(english, self.language).format(**values) if values else word(english, self.language)

    def page(self, address: str, title: str, *body: Child, data: Mapping[str, Any] | None = None) -> str:
        """A whole page. `address` is its path from the top of the site; `data` is for the script of the page."""
        up = "../" * (len(PurePosixPath(address).parts) - 1)
        links = [
            element("a", self.word(text), href=up + name, aria_current="page" if name == address else None)
            for name, text in PAGES.items()
        ]
        links.append(element("a", self.word("Feed"), href=up + FEED))
        whole = self.title if title == self.title else f"{title} - {self.title}"
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="color-scheme", content="light dark"),
            element("title", whole),
            element("link", rel="alternate", type="application/atom+xml", href=up + FEED, title=self.title),
            element("link", rel="stylesheet", href=up + STYLE),
        )
        header = element(
            "header",
            element("a", self.word("Skip to the content"), href="#content", class_="skip"),
            element("p", element("a", self.title, href=f"{up}index.html"), class_="site"),
            element("nav", links, aria_label=self.word("Pages")),
        )
        main = element("main", element("h1", title), *body, id="content")
        made = self.word("Made by llmperf {version}.", version=llmperf.__version__)
        footer = element("footer", element("p", made), None if self.prices is None else element("p", self.prices))
        words = {name: self.word(english) for name, english in WORDS.items()}
        known = {"language": self.language, "words": words, **(data or {})}
        whole_body = element("body", header, main, footer,
                             element("script", Html(embedded(known)), type="application/json", id="data"),
                             element("script", src=up + SCRIPT))  # fmt: skip
        return f"<!doctype html>\n{element('html', head, whole_body, lang=self.language)}\n"


def table(
    caption: str,
    headers: list[Child],
    rows: list[list[Child]],
    numbers: frozenset[int] = frozenset(),
    titled: bool = True,
) -> Html:
    """A table that scrolls sideways, with `numbers` columns; not `titled`, only screen readers read its caption."""
    head = element("thead", element("tr", [
        element("th", header, scope="col", class_="number" if place in numbers else None)
        for place, header in enumerate(headers)
    ]))  # fmt: skip
    body = element("tbody", [
        element("tr", [
            element("th" if not place else "td", cell, scope="row" if not place else None,
                    class_="number" if place in numbers else None)
            for place, cell in enumerate(row)
        ])
        for row in rows
    ])  # fmt: skip
    reached = "<a " in body  # the keyboard reaches a table with links, and scrolls it
    return element(
        "div",
        element("table", element("caption", caption, class_=None if titled else "heard"), head, body),
        class_="scroll",
        tabindex=None if reached else 0,
        role=None if reached else "group",
        aria_label=None if reached else caption,
    )

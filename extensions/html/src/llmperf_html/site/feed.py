"""The Atom feed of a site: the newest results."""

from __future__ import annotations

from datetime import datetime, timezone
from uuid import NAMESPACE_URL, uuid5

from llmperf.reporting import shown

from llmperf_html.site.content import Content, SiteRun
from llmperf_html.site.markup import element
from llmperf_html.site.page import Frame

NEWEST = 50
UNDATED = "1970-01-01T00:00:00Z"
"""Date of a feed without dated results: Atom requires one."""


def feed(frame: Frame, content: Content, url: str) -> str:
    """The feed; addresses are relative to it unless `url`, which ends with a slash, says where the site is."""
    dated = sorted(((time, run) for run in content.runs if (time := _time(run.text("created"))) is not None),
                   key=lambda pair: (pair[0], pair[1].address), reverse=True)  # fmt: skip
    newest = dated[:NEWEST]
    updated = newest[0][0] if newest else UNDATED
    entries = [_entry(run, time, url) for time, run in newest]
    body = element(
        "feed",
        element("title", frame.title),
        element("id", _identity(f"{url}{frame.title}")),
        element("updated", updated),
        element("author", element("name", "llmperf")),
        element("link", rel="self", href=f"{url}feed.xml"),
        entries,
        xmlns="http://www.w3.org/2005/Atom",
        xml__lang=frame.language,
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _entry(run: SiteRun, time: str, url: str) -> str:
    summary = ", ".join(f"{row.label} {shown(row)}" for row in run.sheet.overview[:6])
    return element(
        "entry",
        element("title", f"{run.sheet.title}, {run.sheet.name}"),
        element("id", _identity(url + run.address)),
        element("updated", time),
        element("link", rel="alternate", type="text/html", href=url + run.address),
        element("summary", summary),
    )


def _identity(name: str) -> str:
    """A lasting identifier of what has this name."""
    return f"urn:uuid:{uuid5(NAMESPACE_URL, name)}"


def _time(text: str | None) -> str | None:
    """A time as Atom writes it; None for a text that is none."""
    try:
        time = datetime.fromisoformat((text or "").replace("Z", "+00:00"))  # Python 3.10 does not read the Z of UTC
    except ValueError:
        return None
    known = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
    return known.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Write results as a static website: leaderboards, a page for each run, a feed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from tempfile import mkdtemp
from uuid import NAMESPACE_URL, uuid5

import click
from llmperf import encode_pretty, json_option, print_json, read_bytes, warn
from llmperf.errors import UserError
from llmperf.reporting import language_option, shown, word
from llmperf.types import Row

from llmperf_html.site.content import Content, SiteRun
from llmperf_html.site.page import Frame, assets, element

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


MARK = "site.json"
SCHEMA = "llmperf/site/1"


def check_target(target: Path, results: Sequence[Path]) -> None:
    """UserError if a site cannot be written to `target` without losing something that is not of a site."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UserError(f"-o {target}: expected a folder, or no such name, found a link or a file")
    place = target.resolve()
    inside = next((path for path in results if path.resolve().is_relative_to(place)), None)
    if inside is not None:
        raise UserError(f"-o {target}: expected a folder outside of the results, found {inside} in it")
    if not target.parent.is_dir():
        raise UserError(f"-o {target}: no folder {target.parent}")
    if target.is_dir() and (present := _files(target)):
        extra = sorted(present - _own_files(target))
        if extra:
            raise UserError(
                f"-o {target}: expected an empty folder or a site, found {extra[0]!r}, which is no part of one"
            )


def write_site(target: Path, files: Mapping[str, str]) -> None:
    """Write files by their path in the site, and replace the site that is at `target`."""
    beside = Path(mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        new = beside / "new"
        listed = {"schema": SCHEMA, "files": sorted([*files, MARK])}
        for name, text in {**files, MARK: encode_pretty(listed).decode()}.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8", "backslashreplace"))
        if target.exists():
            os.rename(target, beside / "old")
        os.rename(new, target)
    except BaseException:
        if (beside / "old").exists() and not target.exists():
            os.rename(beside / "old", target)
        raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _files(folder: Path) -> set[str]:
    """Files and links of a folder by path."""
    names: set[str] = set()
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        names |= {Path(parent, name).relative_to(folder).as_posix() for name in (*files, *links)}
    return names


def _own_files(folder: Path) -> set[str]:
    """The files that llmperf wrote to a site; empty for another folder."""
    try:
        listed = json.loads(read_bytes(folder / MARK))
    except (UserError, ValueError, RecursionError):
        return set()
    known = isinstance(listed, dict) and listed.get("schema") == SCHEMA
    files = listed.get("files") if known else None
    return {name for name in files if isinstance(name, str)} if isinstance(files, list) else set()


EXAMPLES = """\b
Examples:
  llmperf site published/ -o site/                              the published rows that ship
  llmperf site runs/ submissions/ -o site/ --title "Our chips"  runs, and submissions of llmperf pack
  llmperf site submissions/ -o site/ --prices prices.toml       with the cost of a training
"""


@click.command("site", epilog=EXAMPLES)
@click.argument("paths", metavar="RESULTS...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", "output", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Folder of the site."
)
@click.option("--title", show_default="llmperf results", help="Title of the site.")
@click.option("--url", metavar="URL", default="", help="Where the site will be, for the addresses in its feed.")
@click.option("--prices", metavar="FILE", type=click.Path(path_type=Path),
              help="Prices of devices and electricity: adds the cost of a training.")  # fmt: skip
@click.option("--train-tokens", metavar="COUNT", type=str,
              help="Tokens of a training: adds its device hours, time and cost.")  # fmt: skip
@click.option("--signers", metavar="FILE", type=click.Path(path_type=Path),
              help="Allowed signers: submissions signed by one of their keys say so.")  # fmt: skip
@language_option
@json_option
def command(
    paths: tuple[Path, ...], output: Path, title: str | None, url: str, prices: Path | None, train_tokens: str | None,
    signers: Path | None, language: str, as_json: bool,
) -> None:  # fmt: skip
    """Write run folders, imported documents and submissions of llmperf pack as a static website.

    The site has leaderboards by model and contract, pages for devices, vendors, frameworks and each run, a list of
    changes and an Atom feed. It opens from a folder and from any address and loads nothing from
    elsewhere. The same results give the same site.

    A site that is in the folder already is replaced as a whole; any other folder has to be empty. Archives in a folder
    that are damaged or changed are left out with a message.
    """
    from llmperf_compare.copies import distinct_sheets
    from llmperf_compare.cost import costing_for, used_prices, with_cost
    from llmperf_compare.documents import opened_results
    from llmperf_compare.scaling import with_scaling

    from llmperf_html.site.pages import pages

    if url and not re.fullmatch(r"https?://[^\s\"<>]+", url):
        raise UserError(f"--url: expected an address such as https://example.org/llmperf/, found {url!r}")
    check_target(output, paths)
    costing = costing_for(prices, train_tokens, warn)
    sheets = distinct_sheets(opened_results(paths, warn, signature=_signature(signers)), warn)
    shown = sheets if costing is None else with_cost(sheets, costing, lambda line: click.echo(line, err=True))
    content = Content(sheets, with_scaling(shown))
    known = None if costing is None or costing.prices is None else used_prices(costing.prices)
    frame = Frame(title=title or word("llmperf results", language), language=language, prices=known)
    files = dict(pages(frame, content)) | assets()
    files["feed.xml"] = feed(frame, content, url and f"{url.rstrip('/')}/")
    write_site(output, files)
    if as_json:
        print_json({"site": str(output / "index.html"), "results": len(content.runs), "files": len(files)})
        return
    results = f"{len(content.runs)} result{'s' * (len(content.runs) != 1)}"
    click.echo(f"{output / 'index.html'}: {results}, {len(files)} files")


def _signature(signers: Path | None) -> Callable[[Path, Path], Row]:
    """Makes the row on who signed a submission; UserError if nothing here can tell."""
    if signers is None:
        return lambda result, archive: Row(key="signature", label="signature", value=None, text="signature not checked")
    try:
        from llmperf_verify.signed import signature_row
    except ImportError:
        raise UserError("--signers: signatures are checked by llmperf-verify, which is not installed") from None
    return signature_row(signers)

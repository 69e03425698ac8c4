"""Write results as a static website: leaderboards, a page for each run, a feed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click
from llmperf import json_option, print_json
from llmperf.reporting import language_option
from llmperf.types import Row

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
    from llmperf import warn
    from llmperf.errors import UserError
    from llmperf.reporting import word
    from llmperf_compare.copies import distinct_sheets
    from llmperf_compare.cost import costing_for, used_prices, with_cost
    from llmperf_compare.documents import opened_results
    from llmperf_compare.scaling import with_scaling

    from llmperf_html.site.content import Content
    from llmperf_html.site.feed import feed
    from llmperf_html.site.folder import check_target, write_site
    from llmperf_html.site.page import Frame, assets
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
        from llmperf.errors import UserError

        raise UserError("--signers: signatures are checked by llmperf-verify, which is not installed") from None
    return signature_row(signers)

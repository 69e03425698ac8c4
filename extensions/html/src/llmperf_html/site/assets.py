"""The files that all pages of a site share: its style, and the script that draws the charts of a run."""

from __future__ import annotations

from llmperf_html.document import CHARTS, library

STYLE = "assets/site.css"
SCRIPT = "assets/charts.js"
STYLES = ("uplot/uPlot.min.css", "page.css", "bars.css", "site.css")
SCRIPTS = (CHARTS, "dom.js", "plot.js", "charts.js", "site.js")


def assets() -> dict[str, str]:
    """The shared files by their path in the site."""
    return {
        STYLE: "\n".join(map(library, STYLES)) + "\n",
        SCRIPT: "\n".join(map(library, SCRIPTS)) + "\n",
    }

"""Make the picture of a terminal in the README: what `llmperf run` prints, as SVG.

./dev python docs/terminal.py            # runs the default case
./dev python docs/terminal.py RUN        # shows a run folder
"""

from __future__ import annotations

import subprocess
import sys
from html import escape
from pathlib import Path
from textwrap import wrap

PICTURE = Path(__file__).parent / "images" / "run.svg"
WIDTH, LINE, LEFT, TOP = 8.4, 20, 16, 30
"""Of a letter and of a line, and the margins, in pixels."""
COLUMNS = 100


def svg(lines: list[str]) -> str:
    """The lines as a dark terminal; the first one is what was typed, the second is bold."""
    width, height = round(2 * LEFT + WIDTH * max(map(len, lines))), TOP + LINE * len(lines)
    texts = [
        f'<text x="{LEFT}" y="{TOP + LINE * place}"{bold}>{escape(line).replace(" ", "&#160;")}</text>'
        for place, line in enumerate(lines)
        for bold in [' font-weight="bold"' if place == 1 else ' fill="#9da7b3"' if place == 0 else ""]
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-size="14" fill="#e6edf3"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n' + "\n".join(texts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    words = ["report", sys.argv[1]] if sys.argv[1:] else ["run"]
    done = subprocess.run([sys.executable, "-m", "llmperf", *words], stdout=subprocess.PIPE, text=True, check=True)
    shown = [line for line in done.stdout.rstrip().splitlines() if not line.startswith("Nobody has rerun")]
    shown = [part for line in shown for part in wrap(line, COLUMNS, drop_whitespace=False) or [""]]
    PICTURE.write_text(svg(["$ ./dev llmperf run", *shown]), encoding="utf-8")

"""Make the pictures of the documentation: pages of the HTML report and of a site in headless Chromium.

./dev python docs/screenshots.py            # makes four runs with each of two frameworks first
./dev python docs/screenshots.py RUNS       # shows the runs below a folder, with RUNS/ddp and RUNS/zero to compare
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
PUBLISHED = Path(__file__).parents[1] / "extensions/published/src/llmperf_published/data"
"""Imported rows, which stand beside the runs."""
FRAMEWORKS = {"zero": "zero", "ddp": "pytorch"}
"""Folder of runs -> framework."""
REPEATS = 4
WIDTH, HEIGHT = 1280, 800
MAX_BYTES = 150_000
COLOURS = 128
"""Colours of a picture: pages have few, and the file shrinks to a third."""


def llmperf(*words: str) -> None:
    """Run one command line of llmperf."""
    subprocess.run([sys.executable, "-m", "llmperf", *words], check=True)


def views(runs: Path) -> dict[str, list[tuple[str, str]]]:
    """Name of each picture, with what the page's address says; `all:` stands for a run and its repeats."""
    first = {name: min((runs / name).iterdir()).name for name in FRAMEWORKS}
    return {
        "report": [],
        "run": [("run", first["zero"])],
        "comparison": [("side", f"all:{first['zero']}"), ("side", f"all:{first['ddp']}")],
    }


def save(page: Page, path: Path) -> None:
    """Save a screenshot of the window, with few colours."""
    page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(IMAGES.parents[1])}: {size / 1000:.0f} kB")
    if size > MAX_BYTES:
        sys.exit(f"{path}: expected at most {MAX_BYTES} bytes, found {size}")


def main(arguments: list[str]) -> None:
    """Make runs unless there are some, their report, and its pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("no Chromium here: apt-get install chromium")
    if not subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=False).stdout.strip():
        sys.exit("no font with Chinese characters here, which imported rows have: apt-get install fonts-wqy-microhei")
    with tempfile.TemporaryDirectory() as temporary:
        runs = Path(arguments[0]).resolve() if arguments else Path(temporary) / "runs"
        if not arguments:
            for name, framework in FRAMEWORKS.items():
                llmperf("run", "--framework", framework, "--repeat", str(REPEATS), "--out", str(runs / name))
        report = Path(temporary) / "report.html"
        llmperf("report", str(runs), str(PUBLISHED), "--format", "html", "-o", str(report))
        llmperf("site", str(runs), str(PUBLISHED), "-o", str(Path(temporary) / "site"))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--hide-scrollbars"])
            for name, query in views(runs).items():
                page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
                page.goto(f"{report.as_uri()}#{urlencode(query)}")
                page.wait_for_selector("body[data-ready=yes]")
                page.wait_for_timeout(500)  # charts are drawn after the page is there
                save(page, IMAGES / f"{name}.png")
                page.close()
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            page.goto((Path(temporary) / "site" / "index.html").as_uri())
            save(page, IMAGES / "site.png")
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])

"""A browser for the tests of pages."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from report_pages import CHROMIUM, FLAGS


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page of results; it must say nothing on its console and ask for nothing from a network."""
    complaints, requests = [], []

    def open_page(text, address="", **options):
        path = tmp_path / "report.html"
        path.write_text(text)
        page = browser.new_page(**options)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri() + address)
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_page
    assert complaints == []
    assert len(set(requests)) <= 1  # a reload asks for the page again

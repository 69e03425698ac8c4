"""The HTML report: one file, harmless whatever the results say, usable in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import llmperf_schemas
import pytest
from llmperf.cli.main import call
from llmperf.documents import convert
from llmperf.reporting.html import embedded, html
from llmperf.results.series import band
from llmperf.types import Result
from llmperf.validation.typed import read_published

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\u2028"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def some(number, **changed):
    """Results that differ in name and throughput."""
    made = []
    for index in range(number):
        document = llmperf_schemas.example("result") | {"run_id": f"run-{index:05d}"} | changed
        document["metrics"] = document["metrics"] | {"tokens_per_second_per_device": 100.0 + index}
        made.append((Path(f"nowhere/run-{index:05d}/result.json"), convert(document, Result, "result")))
    return made


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_one_file_that_loads_nothing(run_folder, tmp_path):
    output = tmp_path / "report.html"
    assert call(["report", str(run_folder), "--format", "html", "-o", str(output)]) == 0
    page = output.read_text()
    assert "src=" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<link" not in page
    assert "default-src 'none'" in page
    assert set(data_of(page)["runs"][0]["curves"]) >= {"loss", "step_seconds"}


def test_foreign_text_cannot_end_its_element():
    assert "<" not in embedded({"text": HOSTILE})
    assert json.loads(embedded({"text": HOSTILE})) == {"text": HOSTILE}
    page = html(some(1, title=HOSTILE, case=HOSTILE, notes=[HOSTILE]), "en")
    assert "<img src=x" not in page
    assert data_of(page)["runs"][0]["row"]["case"].startswith("</script>")


def test_findings_are_made_for_the_page_not_believed(tmp_path, example):
    example["findings"], example["mfu"][0]["value"] = [], 0.9
    page = html([(tmp_path / "result.json", convert(example, Result, "result"))], "en")
    (run,) = data_of(page)["runs"]
    assert run["row"]["errors"] == 1
    assert run["findings"][0]["text"].startswith("LP301 error /mfu/0/value: expected 0.3")


def test_imported_rows_have_their_own_findings_and_those_of_their_document():
    path = Path(__file__).parents[2] / "published" / "llama2_7b_lora_a100" / "published.json"
    runs = data_of(html([], "en", [(path, read_published(path))]))["runs"]
    codes = [[one["text"].split()[0] for one in run["findings"]] for run in runs]
    assert codes == [["LP214", "LP314", "LP614", "LP615"], ["LP614", "LP615"]]


def test_chinese_headings():
    titles = [one["title"] for one in data_of(html(some(1), "zh"))["runs"][0]["sections"]]
    assert {"性能指标", "环境配置"} <= set(titles)


def test_bands_are_percentiles_and_neighbours_share_a_point():
    found = band([(0.0, [1.0, 2.0, 3.0]), (1.0, []), (2.0, [5.0])], points=10)
    assert found.x == (0.0, 2.0)
    assert (found.low[0], found.middle, found.high[0]) == (pytest.approx(1.1), (2.0, 5.0), pytest.approx(2.9))
    assert len(band([(float(x), [1.0]) for x in range(1000)], points=100).x) == 100


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

    def open_page(text, **options):
        path = tmp_path / "report.html"
        path.write_text(text)
        page = browser.new_page(**options)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_page
    assert complaints == []
    assert len(requests) <= 1


def cells(page, field):
    return page.locator(f'.tabulator-row .tabulator-cell[tabulator-field="{field}"]').all_inner_texts()


def test_sorting_filtering_and_opening(opened):
    page = opened(html(some(5), "en"))
    page.locator('.tabulator-col[tabulator-field="throughput"] .tabulator-col-title').click()
    page.locator('.tabulator-col[tabulator-field="throughput"] .tabulator-col-title').click()
    assert cells(page, "throughput")[0] == "104.0"
    page.locator("#search").fill("run-00003")
    assert cells(page, "run") == ["run-00003"]
    page.get_by_role("button", name="open").focus()
    page.keyboard.press("Enter")
    assert page.locator("#detail h2").inner_text() == "run-00003"
    assert page.locator("#detail canvas").count() >= 1


def test_two_runs_side_by_side(opened):
    page = opened(html(some(3), "en"))
    boxes = page.get_by_role("checkbox")
    assert page.locator("#compare").is_disabled()
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.locator("#compare").click()
    assert "A: run-00000" in page.locator("#detail").inner_text()
    assert "0.9901" in page.locator("#detail").inner_text()


def test_hostile_text_stays_text(opened):
    page = opened(html(some(2, case=HOSTILE, title=HOSTILE, notes=[HOSTILE]), "en"))
    page.get_by_role("button", name="open").first.click()
    assert page.title() == "llmperf"
    assert page.locator("img").count() == 0
    assert "onerror" in page.locator("#detail").inner_text()


def test_a_phone_in_the_dark_does_not_scroll_sideways(opened):
    page = opened(html(some(2), "en"), viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.get_by_role("button", name="open").first.click()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"


@pytest.mark.slow
def test_ten_thousand_runs_stay_usable(opened):
    text = html(some(10_000), "en")
    start = time.monotonic()
    page = opened(text)
    opening = time.monotonic() - start
    rows = page.locator(".tabulator-row").count()
    assert rows < 200, "rows that nobody sees are not drawn"
    page.locator("#search").fill("run-09999")
    assert cells(page, "run") == ["run-09999"]
    print(f"opened in {opening:.1f} s, {len(text) / 2**20:.0f} MiB")

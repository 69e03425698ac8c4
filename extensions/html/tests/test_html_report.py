"""The HTML report: one file, harmless whatever the results say, usable in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import llmperf_schemas
import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.files.json_files import convert
from llmperf.reporting.result_sheets import result_sheet
from llmperf.reporting.run_setup import contract_parts
from llmperf.results.groups import contract_differences
from llmperf.results.series import curve_of, recorded_curves
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import read_run
from llmperf.types import DeviceSample, Lora, MemorySample, Optimizer, Result
from llmperf.validation.catalogue import open_catalogue
from llmperf.validation.check import Validator
from llmperf.validation.reading_documents import read_document, read_result
from llmperf_html.page import embedded
from llmperf_html.page import html as page_of
from llmperf_published.reporting.sheets import published_sheets

FAILURE = {"rank": 1, "reason": "killed", "exception": None, "message": "rank 1 was killed by SIGKILL", "log_tail": []}
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


def html(results, language, documents=()):
    """The page of results and imported documents, with what validation finds in them."""
    validator = Validator()
    kinds = validator.catalogue.kinds
    sheets = [result_sheet(result, path, validator.checked(kinds["result"], path, result).findings)
              for path, result in results]  # fmt: skip
    for path, document in documents:
        sheets += published_sheets(document, path, validator.checked(kinds["published"], path, document).findings)
    return page_of(sheets, language)


def published(name):
    """A document of the repository."""
    path = Path(__file__).parents[3] / "published" / name / "published.json"
    return [(path, read_document(open_catalogue().kinds["published"], path))]


def data_of(page):
    """The data of a page, with what its runs share in each of them, as the page's scripts show it."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    sections = [part | {"rows": [data["rows"][row] for row in part["rows"]]} for part in data["sections"]]
    for run in data["runs"]:
        cells = zip(run["printed"], run["row"], strict=False)
        texts = [("-" if row is None else row) if text is None else text for text, row in cells]
        run["printed"] = dict(zip(data["fields"], texts, strict=False))
        run["row"] = dict(zip(data["fields"], run["row"], strict=True))
        run["sections"] = [sections[part] for part in run["sections"]]
        run["findings"] = [data["findings"][finding] for finding in run["findings"]]
    return data


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
    runs = data_of(html([], "en", published("llama2_7b_lora_a100")))["runs"]
    runs.sort(key=lambda one: one["row"]["run"])
    codes = [[one["text"].split()[0] for one in run["findings"]] for run in runs]
    assert codes == [["LP214", "LP314", "LP614", "LP615"], ["LP614", "LP615"]]


def test_imported_rows_show_their_verdicts_and_the_page_counts_them():
    page = html([], "en", published("llama2_7b_lora_a100"))
    runs = sorted(data_of(page)["runs"], key=lambda one: one["row"]["run"])
    assert [one["row"]["status"] for one in runs] == ["imported: not checked", "imported: agrees"]
    counted = "2 published rows: 1 agree, 0 wrong, 1 not checked (1: its MFU is withheld)"
    assert f'<p id="verdicts">{counted}</p>' in page
    assert 'id="verdicts"' not in html(some(2), "en")


def test_chinese_throughout():
    data = data_of(html(some(2), "zh"))
    titles = [one["title"] for one in data["runs"][0]["sections"]]
    assert {"性能指标", "环境配置"} <= set(titles)
    told = [
        data["summary"],
        data["made"],
        data["title"],
        *data["words"].values(),
        *(one["title"] for one in data["columns"] + data["figures"]),
    ]
    assert {one for one in told if one.isascii()} <= {"token/p/s", "fix_hp"}
    labels = [row[0] for row in data["runs"][0]["sections"][0]["rows"]]
    assert {"模型", "框架", "单进程存储（GiB）"} <= set(labels)


def test_figures_of_a_document_stay_as_printed():
    runs = data_of(html([], "en", published("baichuan2_13b_zero_h800")))["runs"]
    figures = {"throughput": "2068", "mfu": "16.3 %", "loss": "2.06", "memory": "77/80"}
    assert any(figures.items() <= run["printed"].items() for run in runs)
    computed = data_of(html([], "en", published("llama1_paddle_a100")))["runs"]
    assert "4267" in [one["printed"]["throughput"] for one in computed]


def test_bands_are_percentiles_and_neighbours_share_a_point():
    found = curve_of([(0.0, [1.0, 2.0, 3.0]), (1.0, []), (2.0, [5.0])], points=10)
    assert found.x == (0.0, 2.0)
    assert (found.low[0], found.middle, found.high[0]) == (pytest.approx(1.1), (2.0, 5.0), pytest.approx(2.9))
    assert len(curve_of([(float(x), [1.0]) for x in range(1000)], points=100).x) == 100


def test_of_two_values_the_band_is_their_range():
    found = curve_of([(float(x), [1.0, 2.0 + x]) for x in range(4)], points=2)
    assert (found.low, found.high, found.of) == ((1.0, 1.0), (3.0, 5.0), 2)


def sampled(run):
    """The run folder with readings of its device from 3 s before its window on, and one rank that is slower."""
    begin, _ = read_run(run).windows[0]
    readings = [MemorySample(at=at, monotonic=begin - 3 + at, query_seconds=0.0, devices=(DeviceSample(index=0,
                memory_used_bytes=2**30 + at, memory_total_bytes=2**33),)) for at in range(6)]  # fmt: skip
    (run / filenames.MEMORY).write_bytes(b"".join(json_files.encode(one) + b"\n" for one in readings))
    records = run / filenames.RECORDS / "rank-00000.jsonl"
    records.write_text(re.sub(r'"step_seconds":[^,}]+', '"step_seconds":9.5', records.read_text()))
    return run


def test_seconds_are_since_the_measured_window_began(run_folder):
    found = recorded_curves(sampled(run_folder))
    begin, end = read_run(run_folder).windows[0]
    assert found.window_seconds == end - begin
    assert found.by_name["memory_bytes"].x == pytest.approx((-3, -2, -1, 0, 1, 2), abs=1e-5)


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("contract", {}),
        ("contract", {"precision": "bf16", "seq_len": 512}),
        ("contract", {"optimizer": Optimizer(lr=0.5), "lora": Lora()}),
        ("model", {"layers": 7, "title": "another title"}),
        ("model", {"source": "elsewhere"}),
    ],
)
def test_contracts_differ_as_the_command_line_says(part, changed):
    ((_, one),) = some(1)
    other = replace(one, **{part: replace(getattr(one, part), **changed)})
    ours, theirs = contract_parts(one), contract_parts(other)
    differ = {name.split(".")[0] for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    assert differ == set(contract_differences([one], [other]))


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
    assert len(set(requests)) <= 1  # a reload asks for the page again


def cells(page, field):
    return page.locator(f'.tabulator-row .tabulator-cell[tabulator-field="{field}"]').all_inner_texts()


def test_sorting_filtering_and_opening(opened):
    page = opened(html(some(5), "en"))
    page.locator('.tabulator-col[tabulator-field="throughput"] .tabulator-col-title').click()
    page.locator('.tabulator-col[tabulator-field="throughput"] .tabulator-col-title').click()
    assert cells(page, "throughput")[0] == "104.0"
    page.locator("#search").fill("run-00003")
    assert cells(page, "run") == ["run-00003"]
    page.get_by_role("link", name="open").focus()
    page.keyboard.press("Enter")
    assert page.locator("#detail h2").inner_text() == "run-00003"
    assert page.locator("#detail canvas").count() >= 1


def chosen(page, *names):
    """Tick runs by their names and compare them; what the page then says."""
    for name in names:
        page.get_by_role("checkbox", name=f"compare {name}", exact=True).check()
    page.locator("#compare").click()
    page.locator("#detail h2").first.wait_for()
    return page.locator("#detail").inner_text()


def test_two_runs_side_by_side(opened):
    page = opened(html(some(3), "en"))
    assert page.locator("#compare").is_disabled()
    text = chosen(page, "run-00000", "run-00001")
    assert "A: run-00000" in text
    assert "The contracts differ" not in text
    assert "One run each has no spread" in text
    rows = [line.split("\t") for line in text.splitlines()]
    assert ["token/p/s", "100.0", "101.0", "0.9901"] in rows
    assert ["step, s", "0.6375", "0.6375", "1.0000"] in rows
    assert ["memory of a rank, GiB", "0.62", "0.62", "1.0000"] in rows


def test_no_ratio_where_the_contracts_differ(opened):
    (path, one), (_, other) = some(2)
    other = replace(other, contract=replace(other.contract, precision="bf16"),
                    hardware=replace(other.hardware, device_share=1.0))  # fmt: skip
    text = chosen(opened(html([(path, one), (path, other)], "en")), "run-00000", "run-00001")
    assert "They differ in precision (A: fp32, B: bf16)." in text
    assert "share of a device per rank (A: 50.0 %, B: 100.0 %)" in text
    assert "A / B" not in text


def test_no_ratio_of_a_run_that_failed(opened):
    failed = some(1, status="failed", failure=FAILURE, run_id="bad")
    text = chosen(opened(html([*some(1), *failed], "en")), "run-00000", "bad")
    assert "Not complete, so no ratio is shown: bad (failed: killed)." in text
    assert "A / B" not in text


def test_a_comparison_says_that_imported_rows_have_no_records(opened):
    page = opened(html([], "en", published("llama2_7b_lora_a100")))
    text = chosen(page, "llama2_7b_lora_a100.md:64", "llama2_7b_lora_a100.md:65")
    assert "A: No curves: an imported row has no records." in text


def test_a_ratio_of_published_rows_leaves_memory_out(opened):
    text = chosen(
        opened(html([], "en", published("llama1_paddle_a100"))), *(f"llama1_paddle_a100.md:{line}" for line in (49, 50))
    )
    assert "They were run differently: layout (A: TP1 x PP1, sharding stage 2, B: TP2 x PP1, sharding stage 1)." in text
    assert "No ratio of memory" in text
    rows = [line.split("\t") for line in text.splitlines()]
    assert ["token/p/s", "4267", "3888", "1.0975"] in rows
    assert ["memory of a device, GiB", "70.09 * 8 GB", "58.73 * 8 GB", "-"] in rows


def test_what_a_document_does_not_tell_is_said(opened):
    page = opened(html(some(1), "en", published("llama1_paddle_a100")))
    text = chosen(page, "run-00000", "llama1_paddle_a100.md:49")
    assert "Not stated, so it is unknown whether it is the same: packing; optimizer;" in text
    assert "A / B" not in text


def test_three_chosen_are_told(opened):
    page = opened(html(some(3), "en"))
    assert page.locator("#hint").inner_text() == "0 chosen: choose two."
    for place in range(3):
        page.get_by_role("checkbox").nth(place).check()
    assert page.locator("#hint").inner_text() == "3 chosen: choose two."
    page.get_by_role("checkbox").nth(1).uncheck()
    assert page.locator("#hint").inner_text() == ""
    assert page.locator("#compare").is_enabled()


def test_the_keyboard_sorts_and_every_filter_has_a_name(opened):
    page = opened(html(some(5), "en"))
    header = page.locator('.tabulator-col[tabulator-field="throughput"]')
    page.locator('.tabulator-header-filter input[aria-label="filter: device"]').focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "token/p/s"
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert header.get_attribute("aria-sort") == "descending"
    assert cells(page, "throughput")[0] == "104.0"
    filters = page.locator(".tabulator-header-filter input")
    assert all(one.get_attribute("aria-label") and one.get_attribute("placeholder") for one in filters.all())
    assert page.locator("#search").get_attribute("placeholder") == "model, device, framework, case, run ..."


def test_a_header_in_focus_brings_its_column_along(opened):
    page = opened(html(some(3), "en"), viewport={"width": 700, "height": 600})
    page.locator('.tabulator-col[tabulator-field="created"] .sort').focus()
    page.wait_for_timeout(200)
    header, cell = (page.locator(f'.tabulator-{one}[tabulator-field="created"]').first for one in ("col", "cell"))
    assert header.bounding_box()["x"] == pytest.approx(cell.bounding_box()["x"], abs=1)
    assert cell.bounding_box()["x"] < 700


def test_what_matters_is_in_sight(opened):
    failed = some(1, status="failed", failure=FAILURE)
    page = opened(html([*failed, *some(2)], "en"), viewport={"width": 1440, "height": 900})
    fields = page.locator(".tabulator-row").first.locator("[tabulator-field]")
    shown = [one.get_attribute("tabulator-field") for one in fields.all()]
    assert (shown[0], shown[-1]) == ("model", "run")
    assert {"device", "status", "throughput", "mfu", "loss", "memory", "layout", "case", "fix_hp"} <= set(shown)
    assert {re.sub(r"\d+", "N", text) for text in cells(page, "status")} == {"failed: killed", "invalid: N errors"}


@pytest.mark.parametrize("width", [1400, 1920])
def test_the_table_fits_the_screen(opened, width):
    page = opened(html(some(40), "en"), viewport={"width": width, "height": 900})
    holder = page.locator(".tabulator-tableholder")
    assert holder.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    bottom = holder.bounding_box()
    assert 850 < bottom["y"] + bottom["height"] <= 900, "the table reaches down to the end of the screen"


def test_the_largest_model_does_not_lose_to_a_toy(opened):
    (path, one), (_, other) = some(2)
    toy = replace(other, model=replace(other.model, name="llama_tiny"))
    large = replace(one, model=replace(one.model, name="llama2_7b"))
    page = opened(html([(path, toy), (path, large)], "en"))
    assert cells(page, "model") == ["llama2_7b", "llama_tiny"]


def test_a_phone_shows_the_figures_and_has_a_way_back(opened):
    page = opened(html(some(3), "en"), viewport={"width": 390, "height": 800})
    for field in ("model", "status", "throughput"):
        box = page.locator(f'.tabulator-cell[tabulator-field="{field}"]').first.bounding_box()
        assert box["x"] + box["width"] <= 390, field
    page.get_by_role("link", name="open").first.click()
    page.get_by_role("button", name="Back to the overview").click()
    page.locator("#detail").wait_for(state="hidden")
    assert page.evaluate("window.scrollY") < 200
    page.wait_for_timeout(400)
    assert page.evaluate("document.activeElement.dataset.index") == "0"


def test_charts_say_what_they_shade(opened, run_folder):
    result = read_result(sampled(run_folder) / "result.json")
    entropy = replace(result.metrics, known_entropy=1.5)
    page = opened(html([(run_folder / "result.json", replace(result, metrics=entropy))], "en"))
    loss, steps = (page.get_by_role("img", name=name, exact=False).first for name in ("loss;", "step time;"))
    assert "known entropy of the data: 1.5, below this chart" in loss.inner_text()
    assert "warm-up: not measured" in loss.inner_text()
    assert "range of both ranks" in steps.inner_text()
    assert "outside the measured window" in page.get_by_role("img", name="memory in use").inner_text()
    assert "seconds since the window began" in page.get_by_role("img", name="memory in use").inner_text()


def test_warm_up_steps_are_shaded(opened):
    page = opened(html(some(1), "en"))
    assert page.evaluate("""() => {
        const canvas = document.querySelector('canvas'), y = Math.round(canvas.height / 2);
        const line = canvas.getContext('2d').getImageData(0, y, canvas.width, 1).data;
        const alpha = part => line[4 * Math.round(canvas.width * part) + 3];
        const shaded = [0.16, 0.18, 0.2].map(alpha), plain = [0.71, 0.74, 0.77].map(alpha);
        return Math.min(...shaded) > 0 && Math.min(...plain) === 0;
    }""")


def test_an_imported_row_says_that_it_has_no_records(opened):
    page = opened(html([], "en", published("baichuan2_13b_zero_h800")))
    assert cells(page, "throughput") == ["2710", "2068"]
    assert cells(page, "mfu") == ["21.4 %", "16.3 %"]
    page.get_by_role("link", name="open").first.click()
    page.locator("#detail h2").first.wait_for()
    assert "an imported row has no records" in page.locator("#detail").inner_text()


def test_paper_has_whole_charts_and_the_rows_that_are_shown(opened):
    page = opened(html(some(4), "en"), viewport={"width": 1440, "height": 900}, color_scheme="dark")
    page.locator("#search").fill("run-00003")
    page.get_by_role("link", name="open").first.click()
    page.evaluate("addEventListener('afterprint', () => { document.body.dataset.printed = 'yes' })")
    page.pdf(format="A4")
    page.wait_for_selector("body[data-printed]")
    assert page.locator("#printed").inner_text() == ""
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#summary").inner_text() == "1 of 4 runs"
    assert page.locator("#printed tbody tr").count() == 1
    assert {"run", "status", "token/p/s", "loss"} <= set(page.locator("#printed th").all_inner_texts())
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("""Array.from(document.querySelectorAll('#printed table, #printed td, canvas')).every(one =>
        one.getBoundingClientRect().right <= Math.min(700, one.parentElement.getBoundingClientRect().right + 1))""")


def test_chinese_page(opened):
    page = opened(html(some(2), "zh"))
    assert page.locator("#summary").inner_text() == "2 次运行"
    assert page.locator("#search-label").inner_text() == "搜索"
    assert page.get_by_role("link", name="打开").count() == 2


def test_hostile_text_stays_text(opened):
    page = opened(html(some(2, case=HOSTILE, title=HOSTILE, notes=[HOSTILE]), "en"))
    page.get_by_role("link", name="open").first.click()
    page.locator("#detail h2").first.wait_for()
    assert "taken" not in page.title().split("'")
    assert page.title().endswith(page.evaluate("document.title.split(' - ').pop()"))
    assert page.evaluate("document.querySelector('title').children.length") == 0
    assert page.locator("img").count() == 0
    assert "onerror" in page.locator("#detail").inner_text()


def test_a_phone_in_the_dark_does_not_scroll_sideways(opened):
    page = opened(html(some(2), "en"), viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.get_by_role("link", name="open").first.click()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"


def test_each_run_has_an_address_and_back_leads_to_the_table(opened):
    page = opened(html(some(5), "en"))
    assert re.fullmatch(r"llmperf report: 5 runs, \d{4}-\d\d-\d\d", page.title())
    page.locator("#search").fill("run-0000")
    page.locator('.tabulator-col[tabulator-field="throughput"] .sort').click()
    page.wait_for_function("location.hash.includes('sort=throughput')")
    table = page.evaluate("location.hash")
    page.locator('.open[data-index="3"]').click()
    page.locator("#detail h2").wait_for()
    name = page.locator("#detail h2").inner_text()
    assert page.evaluate("location.hash") == f"#run={name}"
    assert page.title().startswith(f"{name} - llmperf report")
    page.go_back()
    page.locator("#detail").wait_for(state="hidden")
    assert page.evaluate("location.hash") == table
    assert "q=run-0000" in table
    page.go_forward()
    page.locator("#detail h2").wait_for()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#detail h2").inner_text() == name


def test_search_order_and_comparisons_can_be_sent_on(opened):
    page = opened(html(some(5), "en"))
    page.evaluate("location.hash = 'q=run-00001 &sort=throughput:asc'")
    page.wait_for_function("document.getElementById('summary').textContent === '1 of 5 runs'")
    page.evaluate("location.hash = 'a=run-00002&b=run-00000'")
    page.locator("#detail h2").first.wait_for()
    assert page.locator("#detail h2").all_inner_texts() == ["A: run-00002", "B: run-00000"]
    page.evaluate("location.hash = 'run=none'")
    page.locator("#detail").wait_for(state="hidden")


def test_runs_of_one_name_have_addresses_of_their_own(opened):
    page = opened(html([*some(1), *some(1)], "en"))
    addresses = [one.get_attribute("href") for one in page.locator(".open").all()]
    assert addresses == ["#run=run-00000", "#run=run-00000%7E2"]


def test_a_far_entropy_does_not_flatten_the_loss(opened):
    (path, one), _ = some(2)
    result = replace(one, metrics=replace(one.metrics, known_entropy=0.001))
    page = opened(html([(path, result)], "en"))
    ticks = page.evaluate("Math.min(...llmperf.runs[0].curves.loss.middle)")
    assert ticks > 1
    assert "0.001, below this chart" in page.get_by_role("img", name="loss;").inner_text()
    assert page.locator(".u-legend tr").count() == 2, "a limit that is out of sight has no line and no entry"


def test_curves_that_cover_one_another_are_said(opened):
    text = chosen(opened(html(some(3), "en")), "run-00000", "run-00001")
    assert "A and B have the same curve, so one covers the other" in text


def test_a_chart_is_also_a_table(opened):
    page = opened(html(some(1), "en"))
    chart = page.locator(".chart").first
    chart.locator("summary").click()
    rows = [line.split("\t") for line in chart.locator("table.data").inner_text().splitlines()]
    curve = data_of(page.content())["runs"][0]["curves"]["loss"]
    assert rows[0] == ["step", "loss"]
    assert [int(one[0]) for one in rows[1:]] == curve["x"]
    assert float(rows[1][1]) == pytest.approx(curve["middle"][0], rel=1e-5)


def test_rules_for_tables_do_not_reach_the_legend(opened):
    page = opened(html(some(1), "en"))
    legend = page.locator(".u-legend td, .u-legend th").first
    assert legend.evaluate("one => getComputedStyle(one).minWidth") in ("0px", "auto")
    assert legend.evaluate("one => getComputedStyle(one).borderBottomWidth") == "0px"


def test_nothing_is_wrong_for_assistive_technology(opened, run_folder):
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
    read = (sampled(run_folder) / "result.json", read_result(run_folder / "result.json"))
    page = opened(html([*some(30), read], "en", published("llama2_7b_lora_a100")))
    page.evaluate(axe.AXE_SCRIPT)
    assert page.evaluate("axe.run().then(found => found.violations.map(one => one.id))") == []
    page.get_by_role("link", name="open").first.click()
    page.locator("#detail h2").wait_for()
    assert page.evaluate("axe.run().then(found => found.violations.map(one => one.id))") == []


@pytest.mark.slow
@pytest.mark.long
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

"""The HTML report in a real browser: ranked bars, table, pages of runs and comparisons, keyboard, paper, phone."""

import re
import time
from dataclasses import replace

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.validation import read_run_result
from report_pages import FAILURE, HOSTILE, html, published, sampled, some

pytestmark = pytest.mark.slow

EACH = "#each=1"
"""A row for each run."""


def cells(page, field):
    if field == "model":
        return page.locator(".runs tbody th a.open, .runs tbody .group th .text").all_inner_texts()
    return page.locator(f'.runs tbody td[data-field="{field}"]').all_inner_texts()


def test_the_report_opens_with_ranked_bars(opened):
    page = opened(html(some(3), "en", published("llama1_paddle_a100")), viewport={"width": 1400, "height": 900})
    assert page.locator("#chart li").first.bounding_box()["y"] < 300
    paddle = page.locator('.standing[data-model="llama1_7b"]')
    assert "57.4 %" in paddle.locator("tbody tr").first.inner_text()
    widths = paddle.locator(".bar.printed").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    assert widths == sorted(widths, reverse=True)
    assert page.locator(".verdict").count() == page.locator(".bars tbody tr").count()


def test_bars_are_ranked_by_another_figure_and_the_address_keeps_it(opened):
    page = opened(html([], "en", published("llama1_paddle_a100")))
    page.locator("#model").select_option("llama1_7b")
    page.locator('.standing:not([hidden]) th[data-metric="mfu_nominal"] .sort').click()
    page.wait_for_function("location.hash.includes('rank=mfu_nominal') && location.hash.includes('model=llama1_7b')")
    assert "57.4" in page.locator("#chart li .value").first.inner_text()
    page.locator("#device").select_option("A100")
    assert page.locator("#chart li", has_text="SXM4").count() == 0
    assert set(cells(page, "model")) == {"llama1_7b"}
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#device").input_value() == "A100"
    assert page.locator('.standing:not([hidden]) th[data-metric="mfu_nominal"][aria-sort="descending"]').count() == 1


def test_the_entries_of_a_contract_are_compared_by_one_link(opened):
    page = opened(html([], "en", published("llama1_paddle_a100")))
    page.locator('.standing[data-model="llama1_13b"] a.compare').click()
    page.locator("#detail h2").wait_for()
    assert page.locator(".sides li").count() == 4


def test_repeats_are_one_row_that_opens(opened):
    page = opened(html(some(3), "en"))
    assert cells(page, "throughput") == ["101.0\n100.0 – 102.0"]
    page.get_by_role("button", name="show the runs of").click()
    assert cells(page, "throughput")[1:] == ["102.0", "101.0", "100.0"]
    assert page.evaluate("location.hash") == "#open=0"
    page.get_by_label("group repeats").uncheck()
    assert cells(page, "throughput") == ["102.0", "101.0", "100.0"]


def test_sorting_filtering_and_opening(opened):
    page = opened(html(some(5), "en"), EACH)
    head = page.locator('.runs th[data-field="throughput"] .sort')
    head.click()
    assert cells(page, "throughput")[0] == "104.0"
    head.click()
    assert cells(page, "throughput")[0] == "100.0"
    page.locator("#search").fill("run-00003")
    assert cells(page, "run") == ["run-00003"]
    assert page.locator("#summary").inner_text() == "1 of 5 runs"
    page.get_by_role("link", name="open").focus()
    page.keyboard.press("Enter")
    page.locator("#detail h2").wait_for()
    assert page.locator("#detail h2").inner_text().startswith("run-00003")
    assert page.locator("#detail canvas").count() >= 1
    assert not page.locator("#overview").is_visible()


def test_prices_give_a_column_of_cost(opened, tmp_path):
    (tmp_path / "prices.toml").write_text('[prices."Example CPU, 2 cores"]\nper_hour = 0.36\ncurrency = "USD"\n'
                                          'date = 2026-11-01\nsource = "list price"\n')  # fmt: skip
    for place, (_, result) in enumerate(some(2)):
        (tmp_path / f"run-{place}").mkdir()
        (tmp_path / f"run-{place}" / "result.json").write_bytes(json_files.encode(replace(result, files={})))
    output = tmp_path / "report.html"
    arguments = ["report", str(tmp_path), "--prices", str(tmp_path / "prices.toml"), "--format", "html"]
    assert call([*arguments, "--train-tokens", "100B", "-o", str(output)]) == 0
    page = opened(output.read_text(), viewport={"width": 1400, "height": 900})
    assert page.locator(".bars thead .figure").count() >= 5
    device = page.locator(".bars tbody tr").first.locator("th").bounding_box()
    assert device["width"] > 200 > device["height"]  # beside all figures
    (cost,) = cells(page, "cost")
    assert re.match(r"[\d.]+ USD", cost)
    page.locator('#table thead [data-field="cost"] .sort').click()
    assert page.locator('#table thead [data-field="cost"]').get_attribute("aria-sort") == "ascending"  # cheapest on top
    page.locator('.bars [data-metric="cost_per_million_tokens"] .sort').click()
    assert page.locator(".bars tbody .rank").first.inner_text() == ""  # one row has no place


def test_the_reader_chooses_columns(opened):
    page = opened(html(some(2), "en"), EACH)
    page.locator(".columns summary").click()
    page.get_by_label("made", exact=True).check()
    page.get_by_label("loss", exact=True).uncheck()
    assert len(cells(page, "created")) == 2
    assert cells(page, "loss") == []
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert len(cells(page, "created")) == 2


def chosen(page, *names):
    """Tick runs by their names and compare them; what the page then says."""
    for name in names:
        page.get_by_role("checkbox", name=f"compare {name}", exact=True).check()
    page.locator("#compare").click()
    page.locator("#detail h2").first.wait_for()
    return page.locator("#detail").inner_text()


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


def test_three_runs_side_by_side(opened):
    page = opened(html(some(3), "en"), EACH)
    assert page.locator("#compare").is_disabled()
    text = chosen(page, "run-00001", "run-00000", "run-00002")
    assert "A: run-00001" in text
    assert "One contract: the figures measure the same thing." in text
    assert "B is 0.9901 times as fast as A. A single run has no spread" in text
    assert ["token/p/s", "101.0", "100.0", "102.0", "0.9901", "1.0099"] in rows(text)
    assert ["step, s", "0.6375", "0.6375", "0.6375", "1.0000", "1.0000"] in rows(text)
    assert page.locator("#detail .chart").first.locator(".u-legend .u-series").count() >= 4


def test_the_address_keeps_what_is_ticked(opened):
    page = opened(html(some(3), "en"), EACH)
    page.get_by_role("checkbox", name="compare run-00001", exact=True).check()
    page.wait_for_function("location.hash.includes('pick=run-00001')")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.get_by_role("checkbox", name="compare run-00001", exact=True).is_checked()
    assert page.locator("#compare").inner_text() == "Compare 1 chosen"


def test_kinds_have_ratios_with_intervals(opened):
    faster = [(path, replace(result, run_id=f"fast-{result.run_id}", fix_hp=(), metrics=replace(
        result.metrics, tokens_per_second_per_device=2 * result.metrics.tokens_per_second_per_device)))
        for path, result in some(4)]  # fmt: skip
    slower = [(path, replace(result, tuning=replace(result.tuning, framework="other"))) for path, result in some(4)]
    page = opened(html([*slower, *faster], "en"))
    for box in page.get_by_role("checkbox", name="compare").all():
        box.check()
    page.locator("#compare").click()
    page.locator("#detail h2").wait_for()
    text = page.locator("#detail").inner_text()
    interval = r"95 % interval 0\.[\d.]+ to 0\.[\d.]+, p = 0\.029, 4 runs a side"
    assert re.search(rf"token/p/s: B is 0\.5\d* times as fast as A \({interval}\)", text)
    assert "framework" in text


def test_disturbed_runs_and_shared_devices_are_named_beside_ratios(opened):
    hosts = [
        (path, replace(result, hardware=replace(result.hardware, device_share=0.5), tuning=replace(
            result.tuning, gradient_checkpointing=bool(place)), metrics=replace(result.metrics, other_cpu_share=0.5)))
        for place, (path, result) in enumerate(some(2))
    ]  # fmt: skip
    text = chosen(opened(html(hosts, "en"), EACH), "run-00000", "run-00001")
    assert ["gradient_checkpointing", "false", "true"] in rows(text)
    assert "A: 1 of 1 run disturbed by other processes (up to 50 % of the cores)" in text
    (in_use,) = (row for row in rows(text) if row[0] == "memory of a device, GiB, in use by all")
    assert in_use[-1] == "-"


def test_no_ratio_where_the_contracts_differ(opened):
    (path, one), (_, other) = some(2)
    other = replace(other, contract=replace(other.contract, precision="bf16"),
                    hardware=replace(other.hardware, device_share=1.0))  # fmt: skip
    text = chosen(opened(html([(path, one), (path, other)], "en"), EACH), "run-00000", "run-00001")
    assert ["precision", "fp32", "bf16"] in rows(text)
    assert ["share of a device per rank", "50.0 %", "100.0 %"] in rows(text)
    assert "token/p/s is that of a rank, not of a device" in text
    assert text.index("The contracts differ") < text.index("token/p/s")
    assert "B / A" not in text


def test_no_ratio_of_a_run_that_failed(opened):
    failed = some(1, status="failed", failure=FAILURE, run_id="bad")
    text = chosen(opened(html([*some(1), *failed], "en"), EACH), "run-00000", "bad")
    assert "Not complete, so no ratio is shown: bad (failed: killed)." in text
    assert "B / A" not in text


def test_a_ratio_of_published_rows_leaves_memory_out(opened):
    lines = [f"llama1_paddle_a100.md:{line}" for line in (50, 49)]
    text = chosen(opened(html([], "en", published("llama1_paddle_a100"))), *lines)
    assert ["layout", "TP2 x PP1, sharding stage 1", "TP1 x PP1, sharding stage 2"] in rows(text)
    assert "No ratio of memory" in text
    assert "A: No curves: an imported row has no records." in text
    assert ["token/p/s", "3888", "4267", "1.0975"] in rows(text)
    assert ["memory of a device, GiB", "58.73 * 8 GB", "70.09 * 8 GB", "-"] in rows(text)


def test_what_a_document_does_not_state_is_named(opened):
    page = opened(html(some(1), "en", published("llama1_paddle_a100")))
    text = chosen(page, "run-00000", "llama1_paddle_a100.md:49")
    assert re.search(r"Not stated, so it is unknown whether it is the same: [^.]*packing; optimizer", text)
    assert "B / A" not in text


def test_more_sides_than_the_limit_are_refused(opened):
    page = opened(html(some(9), "en"), EACH)
    assert page.locator("#hint").inner_text() == "Choose 2 to 8 rows to compare them."
    for box in page.get_by_role("checkbox", name="compare").all():
        box.check()
    assert page.locator("#hint").inner_text() == "9 chosen: at most 8 can be compared."
    assert page.locator("#compare").is_disabled()


def test_the_keyboard_sorts_and_reaches_the_runs(opened):
    page = opened(html(some(5), "en"), EACH)
    page.locator('.runs th[data-field="throughput"] .sort').focus()
    page.keyboard.press("Enter")
    assert page.locator('.runs th[data-field="throughput"]').get_attribute("aria-sort") == "descending"
    assert page.evaluate("document.activeElement.innerText") == "token/p/s"
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "open"


@pytest.mark.parametrize("width", [1000, 1400, 1920])
def test_the_table_fits_the_screen(opened, width):
    failed = some(1, status="failed", failure=FAILURE)
    page = opened(html([*some(40), *failed], "en"), EACH, viewport={"width": width, "height": 900})
    assert page.locator(".tall").evaluate("one => one.scrollWidth <= one.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    fields = page.locator(".runs thead th").evaluate_all("heads => heads.map(head => head.dataset.field)")
    assert {"model", "throughput", "status"} <= set(fields)
    assert width < 1400 or {"device", "mfu", "loss", "layout", "fix_hp"} <= set(fields)


def test_head_and_first_column_stay_in_sight(opened):
    page = opened(html(some(60), "en"), "#each=1&cols=device,throughput,mfu,loss,memory,layout,case,fix_hp,status,run",
                  viewport={"width": 700, "height": 600})  # fmt: skip
    page.locator(".tall").evaluate("one => one.scrollTo(300, 400)")
    place, head = page.locator(".tall").bounding_box(), page.locator(".runs thead th").first.bounding_box()
    assert abs(head["x"] - place["x"]) < 3
    assert abs(head["y"] - place["y"]) < 3


def test_a_phone_shows_the_figures_and_has_a_way_back(opened):
    page = opened(html(some(3), "en"), EACH, viewport={"width": 390, "height": 800}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    for field in ("status", "throughput"):
        box = page.locator(f'.runs td[data-field="{field}"]').first.bounding_box()
        assert box["x"] + box["width"] <= 390, field
    page.get_by_role("link", name="open").first.click()
    page.locator("#detail h2").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.get_by_role("button", name="Back to the overview").click()
    page.locator("#detail").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.dataset.index") == "0"


def test_a_run_has_its_story(opened, run_folder):
    result = read_run_result(sampled(run_folder) / "result.json")
    page = opened(html([(run_folder / "result.json", result)], "en"))
    text = page.locator("#detail").inner_text()
    order = [text.index(title) for title in ("Findings", "loss, nats", "Where the time went", "Contract")
             if title in text]  # fmt: skip
    assert order == sorted(order)
    assert "measuring\t" in text
    assert not page.locator("#detail details.fold").last.evaluate("one => one.open")


def test_charts_go_against_steps_or_time(opened, run_folder):
    result = read_run_result(sampled(run_folder) / "result.json")
    entropy = replace(result.metrics, known_entropy=1.5)
    page = opened(html([(run_folder / "result.json", replace(result, metrics=entropy)), *some(1)], "en"), EACH)
    page.evaluate(f"location.hash = 'run={result.run_id}'")
    page.locator("#detail h2").wait_for()
    loss, steps = (page.get_by_role("img", name=name, exact=False).first for name in ("loss;", "step time;"))
    assert "known entropy of the data: 1.5, below this chart" in loss.inner_text()
    assert "warm-up: not measured" in loss.inner_text()
    assert "range of both ranks" in steps.inner_text()
    page.get_by_role("button", name="against time").click()
    assert "x=time" in page.evaluate("location.hash")
    assert "outside the measured window" in page.get_by_role("img", name="memory in use").inner_text()
    assert "seconds since the window began" in page.get_by_role("img", name="loss").first.inner_text()


def test_warm_up_steps_are_shaded(opened):
    page = opened(html(some(1), "en"))
    assert page.evaluate("""() => {
        const canvas = document.querySelector('canvas'), y = Math.round(canvas.height / 2);
        const line = canvas.getContext('2d').getImageData(0, y, canvas.width, 1).data;
        const alpha = part => line[4 * Math.round(canvas.width * part) + 3];
        const shaded = [0.16, 0.18, 0.2].map(alpha), plain = [0.71, 0.74, 0.77].map(alpha);
        return Math.min(...shaded) > 0 && Math.min(...plain) === 0;
    }""")


def test_paper_has_whole_charts_and_the_rows_that_are_shown(opened):
    page = opened(html(some(120), "en"), EACH, viewport={"width": 1440, "height": 900}, color_scheme="dark")
    page.locator("#search").fill("run-0010")
    page.evaluate("addEventListener('afterprint', () => { document.body.dataset.printed = 'yes' })")
    page.pdf(format="A4")
    page.wait_for_selector("body[data-printed]")
    assert page.locator(".runs tbody tr").count() == 10
    page.locator("#search").fill("")
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".runs tbody tr").count() == 120, "paper has no pages of the table"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.querySelector('.runs').getBoundingClientRect().right <= 700")


def test_chinese_page(opened):
    page = opened(html(some(2), "zh"), EACH)
    assert page.locator("#summary").inner_text() == "2 次运行"
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    page.get_by_role("link", name="打开").first.click()
    page.locator("#detail h2").wait_for()
    heads = page.locator("#detail h2, #detail h3, #detail dt, #detail summary").all_inner_texts()
    assert [head for head in heads if head and head.isascii()] == ["token/p/s"]


def test_numbers_follow_the_locale_of_the_reader(opened):
    page = opened(html(some(2), "en"), EACH, locale="de-DE")
    assert cells(page, "throughput") == ["101,0", "100,0"]
    assert "100,5" in page.locator(".bars .value").first.inner_text()


def test_hostile_text_stays_text(opened):
    page = opened(html(some(2, case=HOSTILE, title=HOSTILE, notes=[HOSTILE]), "en"), EACH)
    page.get_by_role("link", name="open").first.click()
    page.locator("#detail h2").first.wait_for()
    assert "taken" not in page.title().split("'")
    assert page.title().endswith(page.evaluate("document.title.split(' - ').pop()"))
    assert page.evaluate("document.querySelector('title').children.length") == 0
    assert page.locator("img").count() == 0
    assert "onerror" in page.locator("#detail").inner_text()


def test_each_run_has_an_address_and_back_leads_to_the_table(opened):
    page = opened(html(some(5), "en"), EACH)
    assert re.fullmatch(r"llmperf report: 5 runs, \d{4}-\d\d-\d\d", page.title())
    page.locator("#search").fill("run-0000")
    page.locator('.runs th[data-field="throughput"] .sort').click()
    page.wait_for_function("location.hash.includes('sort=throughput')")
    table = page.evaluate("location.hash")
    page.locator('.open[data-index="3"]').click()
    page.locator("#detail h2").wait_for()
    assert page.evaluate("location.hash") == "#run=run-00001"
    assert page.title().startswith("run-00001 - llmperf report")
    page.go_back()
    page.locator("#detail").wait_for(state="hidden")
    assert page.evaluate("location.hash") == table
    assert "q=run-0000" in table
    page.go_forward()
    page.locator("#detail h2").wait_for()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#detail h2").inner_text().startswith("run-00001")


def test_search_and_comparisons_can_be_sent_on(opened):
    page = opened(html(some(5), "en"))
    page.evaluate("location.hash = 'q=run-00001 &sort=throughput:asc'")
    page.wait_for_function("document.getElementById('summary').textContent === '1 of 5 runs'")
    page.evaluate("location.hash = 'side=run-00002&side=run-00000'")
    page.locator("#detail h2").wait_for()
    assert page.locator(".sides strong + a").all_inner_texts() == ["run-00002", "run-00000"]
    page.evaluate("location.hash = 'run=none'")
    page.locator("#detail").wait_for(state="hidden")


def test_runs_of_one_name_have_addresses_of_their_own(opened):
    page = opened(html([*some(1), *some(1)], "en"), EACH)
    addresses = [one.get_attribute("href") for one in page.locator(".open").all()]
    assert addresses == ["#run=run-00000", "#run=run-00000%7E2"]


def test_runs_with_errors_are_dashed_outside_of_the_scale(opened):
    (good_path, good), (bad_path, bad) = some(2)
    good = replace(good, metrics=replace(good.metrics, tokens_per_second_per_device=800.0))
    bad = replace(bad, loss_curve=tuple(replace(point, loss=1e6 * point.loss) for point in bad.loss_curve))
    page = opened(html([(good_path, good), (bad_path, bad)], "en"))
    page.evaluate(
        "() => { const Plot = uPlot; window.plots = []; window.uPlot = function (options, data, place) {"
        " plots.push(new Plot(options, data, place)); return plots.at(-1); }; window.uPlot.join = Plot.join; }"
    )
    page.evaluate(f"location.hash = 'side={good.run_id}&side={bad.run_id}'")
    loss = page.get_by_role("img", name="loss").first
    assert "B (errors: not in the scale)" in loss.inner_text()
    assert "A (errors" not in loss.inner_text()
    highest = page.evaluate("plots[0].scales.y.max")
    assert highest < 2 * max(point.loss for point in good.loss_curve)


def test_a_far_entropy_does_not_flatten_the_loss(opened):
    (path, one), _ = some(2)
    result = replace(one, metrics=replace(one.metrics, known_entropy=0.001))
    page = opened(html([(path, result)], "en"))
    assert "0.001, below this chart" in page.get_by_role("img", name="loss;").inner_text()
    assert page.locator(".u-legend tr").count() == 2, "a limit that is out of sight has no line and no entry"


def test_curves_that_cover_one_another_are_named(opened):
    text = chosen(opened(html(some(3), "en"), EACH), "run-00000", "run-00001")
    assert "A and B have the same curve, so one covers the other" in text


def test_a_chart_is_also_a_table(opened):
    page = opened(html(some(1), "en"))
    chart = page.locator(".chart").first
    chart.locator("summary").click()
    points = rows(chart.locator("table.data").inner_text())
    curve = page.evaluate("llmperf.data.runs[0].curves.loss")
    assert points[0] == ["step", "loss"]
    assert [int(one[0]) for one in points[1:]] == curve["x"]
    assert float(points[1][1]) == pytest.approx(curve["middle"][0], rel=1e-5)


def test_nothing_is_wrong_for_assistive_technology(opened, run_folder):
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
    read = (sampled(run_folder) / "result.json", read_run_result(run_folder / "result.json"))
    page = opened(html([*some(4), read], "en", published("llama2_7b_lora_a100")))
    page.evaluate(axe.AXE_SCRIPT)
    for scheme, address in (("light", ""), ("light", "each=1&sort=mfu:asc"), ("light", "run=run-00003"),
                            ("light", "side=run-00003&side=all:run-00000"), ("dark", ""), ("dark", "run=run-00003"),
                            ("light", "q=nothing")):  # fmt: skip
        page.emulate_media(color_scheme=scheme)
        page.evaluate(f"location.hash = '{address}'")
        page.wait_for_timeout(100)
        found = page.evaluate("axe.run().then(found => found.violations.map(one => one.id))")
        assert found == [], (scheme, address)


@pytest.mark.long
def test_ten_thousand_runs_stay_usable(opened):
    text = html(some(10_000), "en")
    start = time.monotonic()
    page = opened(text, EACH)
    opening = time.monotonic() - start
    assert page.locator(".runs tbody tr").count() == 100, "rows that nobody sees are not drawn"
    start = time.monotonic()
    page.locator("#search").fill("run-09999")
    assert cells(page, "run") == ["run-09999"]
    searching = time.monotonic() - start
    print(f"opened in {opening:.1f} s, searched in {searching:.2f} s, {len(text) / 2**20:.0f} MiB")
    assert searching < 5

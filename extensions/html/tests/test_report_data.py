"""The data of the HTML report: one file, harmless whatever the results say, with figures as other formats show them."""

import json
import re
from dataclasses import replace

import llmperf_schemas
import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.files.json_files import convert
from llmperf.reporting import result_sheet
from llmperf.reporting.run_setup import contract_parts
from llmperf.runfolder.contents import read_run
from llmperf.types import Lora, Optimizer, ProfiledOperation, ProfileRecord, Result, Row, StepProfile
from llmperf_compare.kinds import contract_differences
from llmperf_html.document import embedded
from llmperf_html.page import html as page_of
from llmperf_html.run_curves import curve_of, recorded_curves
from report_pages import FAILURE, HOSTILE, data_of, html, published, sampled, some


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
    assert "onerror" not in page[: page.index('<script type="application/json"')]
    assert "<img src=x" not in page
    assert data_of(page)["runs"][0]["row"]["case"].startswith("</script>")


def test_findings_are_made_for_the_page_not_believed(tmp_path, example):
    example["findings"], example["mfu"][0]["value"] = [], 0.9
    page = html([(tmp_path / "result.json", convert(example, Result, "result"))], "en")
    (run,) = data_of(page)["runs"]
    assert run["row"]["status"] == "invalid: 1 error"
    assert run["findings"][0]["text"].startswith("LP301 error /mfu/0/value: expected 0.3")


def test_imported_rows_have_their_own_findings_and_verdicts_which_the_page_counts():
    page = html([], "en", published("llama2_7b_lora_a100"))
    runs = sorted(data_of(page)["runs"], key=lambda one: one["row"]["run"])
    codes = [[one["text"].split()[0] for one in run["findings"]] for run in runs]
    assert codes == [["LP214", "LP314", "LP614", "LP615"], ["LP614", "LP615"]]  # of the document too
    assert [one["row"]["status"] for one in runs] == ["imported: not checked", "imported: agrees"]
    counted = "2 published rows: 1 agree, 0 wrong, 1 not checked (1: its MFU is withheld)"
    assert f'<p id="verdicts">{counted}</p>' in page
    assert 'id="verdicts"' not in html(some(2), "en")


def test_chinese_throughout():
    data = data_of(html(some(2), "zh"))
    sections = {one["title"]: one for one in data["runs"][0]["sections"]}
    assert {"性能指标", "环境配置"} <= set(sections)
    told = [
        data["summary"],
        data["made"],
        data["title"],
        *data["words"].values(),
        *(one["title"] for one in data["columns"] + data["figures"]),
    ]
    assert {one for one in told if one.isascii()} <= {"token/p/s", "fix_hp"}
    assert {run["row"]["status"] for run in data["runs"]} == {"无效：4 个错误"}
    labels = {row[0] for row in sections["性能指标"]["rows"]}
    assert {"模型", "框架", "单进程存储（GiB）"} <= labels


def test_figures_of_a_document_stay_as_printed():
    runs = data_of(html([], "en", published("baichuan2_13b_zero_h800")))["runs"]
    figures = {"throughput": "2068", "loss": "2.06", "memory": "77/80"}
    assert any(figures.items() <= run["printed"].items() for run in runs)
    assert "21.4 %" in html([], "en", published("baichuan2_13b_zero_h800"))


def test_a_computed_mfu_is_marked_as_computed():
    page = html([], "en", published("llama1_paddle_a100"))
    assert "57.4 % (computed)" in [run["printed"]["mfu"] for run in data_of(page)["runs"]]
    assert '<td class="figure" data-label="MFU (nominal)" data-value="0.57' in page
    assert '<span class="note">computed</span>' in page
    assert '<svg class="bar computed' in page


def test_bands_are_percentiles_of_two_values_their_range_and_neighbours_share_a_point():
    found = curve_of([(0.0, [1.0, 2.0, 3.0]), (1.0, []), (2.0, [5.0])], points=10)
    assert found.x == (0.0, 2.0)
    assert (found.low[0], found.middle, found.high[0]) == (pytest.approx(1.1), (2.0, 5.0), pytest.approx(2.9))
    assert len(curve_of([(float(x), [1.0]) for x in range(1000)], points=100).x) == 100
    found = curve_of([(float(x), [1.0, 2.0 + x]) for x in range(4)], points=2)
    assert (found.low, found.high, found.of) == ((1.0, 1.0), (3.0, 5.0), 2)


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


def test_a_run_keeps_when_its_steps_ended_and_what_was_expected(run_folder):
    found = recorded_curves(sampled(run_folder))
    plan = read_run(run_folder).plan
    ends = found.by_name["step_ends"]
    assert list(ends.middle) == sorted(ends.middle)
    assert ends.middle[-1] == pytest.approx(found.window_seconds, rel=0.5)
    assert found.phase_seconds["measuring"] == pytest.approx(found.window_seconds, rel=0.5)
    assert found.expected.get("step_seconds") == plan.expected_step_seconds


def test_a_traced_step_is_divided_by_kind_of_operation(run_folder):
    product = ProfiledOperation(name="aten.mm", kind="matmul", seconds=0.3, calls=4)
    profile = StepProfile(rank=0, steps=1, profiler="torch.profiler", clock="host", step_seconds=0.5,
                          operations=(product,), communication_seconds=0.1, overlapped_seconds=0.04,
                          idle_seconds=0.1)  # fmt: skip
    with (run_folder / "records" / "rank-00000.jsonl").open("ab") as records:
        records.write(json_files.encode(ProfileRecord(rank=0, profile=profile)) + b"\n")
    traced = recorded_curves(run_folder).traced_seconds
    assert list(traced) == ["products", "host gaps", "collectives", "other"]
    assert sum(traced.values()) == pytest.approx(0.5)
    assert recorded_curves(run_folder).by_name["step_ends"].x


def test_repeats_are_one_bar_with_their_range():
    page = html(some(3), "en")
    assert page.count('<td class="rank"></td>') == 1
    assert (
        re.sub(r"<[^>]+>", "", re.search(r'<td class="figure".*?</td>', page)[0])
        == "101.0 100.0 to 102.0 in 3 runs, a rank has 1/2 of a device; whole device 202.0"
    )
    assert 'class="track"' not in page
    hardware = llmperf_schemas.example("result")["hardware"] | {"device_model": "Another CPU"}
    assert html([*some(3), *some(3, hardware=hardware)], "en").count('<svg class="whisker"') == 2 * 3  # figures


def test_a_page_without_its_data_is_small():
    page = html([], "en")
    assert len(page.encode()) < 200_000


@pytest.mark.slow
def test_bars_of_very_many_kinds_are_limited_and_the_page_names_the_rest():
    made = [(path, replace(result, hardware=replace(result.hardware, device_model=f"device {place}")))
            for place, (path, result) in enumerate(some(103))]  # fmt: skip
    page = page_of([result_sheet(result, path, ()) for path, result in made], "en")
    assert page.count('<td class="rank">') == 100
    assert "3 slower entries have no bars here: the table has all runs." in page
    assert "show all 100" in page


def test_energy_has_bars_where_it_is_known():
    ((path, result),) = some(1)
    unknown = replace(result, metrics=replace(result.metrics, joules_per_token=None))
    page, without = (page_of([result_sheet(each, path, ())], "en") for each in (result, unknown))
    assert f'data-label="J per token" data-value="{result.metrics.joules_per_token}"' in page
    assert 'data-order="ascending">J per token' in page
    assert "J per token</button>" not in without


def test_bars_name_the_settings_of_published_rows_that_differ():
    page = html([], "en", published("llama1_paddle_a100"))
    setting = {run["key"]: data_of(page)["settings"][run["setting"]] for run in data_of(page)["runs"]}
    fast, slow = setting["llama1_paddle_a100.md:49"], setting["llama1_paddle_a100.md:54"]
    differing = {name: (fast[name], slow[name]) for name in fast if fast[name] != slow.get(name)}
    assert differing["gradient_checkpointing"] == ("false", "true")
    assert differing["fused_ops"] == ("rms_norm", "none")
    assert differing["micro_batch"] == ("4", "2")
    assert re.search(r'class="joint"> · </span><span class="changes">[^<]*gradient_checkpointing=true', page)


def test_a_run_without_a_figure_has_no_rank():
    page = html(some(1) + some(1, run_id="broken", status="failed", failure=FAILURE, fix_hp=[]), "en")
    assert re.findall(r'<td class="rank">(.)</td>', page) == ["1", "-"]


def test_an_imported_row_is_not_called_valid():
    page = html([], "en", [*published("baichuan2_13b_zero_h800"), *published("llama2_7b_megatron_deepspeed_a100")])
    assert set(re.findall(r'<span class="verdict (\w+)" title="[^"]*">(.*?)</span>', page)) == {
        ("plain", "figures agree (peak: confidence low)"), ("warnings", "figures agree, with warnings")}  # fmt: skip
    assert "figures agree&quot; means only" in page


def priced(number, currency="USD", device=None, speed=100.0):
    """A run with its cost."""
    ((path, result),) = some(1)
    sheet = result_sheet(result, path, ())
    rows = {row.key: row for row in sheet.overview}
    rows["tokens_per_second_per_device"] = replace(rows["tokens_per_second_per_device"], value=speed)
    if device is not None:
        rows["device"] = replace(rows["device"], value=device, text=None)
    cost = Row(key="cost_per_million_tokens", label="cost per million tokens", value=100 / speed, unit=currency,
               text=f"{100 / speed:g} {currency}")  # fmt: skip
    repeats = sheet.repeats if device is None else device
    return replace(sheet, name=f"run{number}", overview=(*rows.values(), cost), repeats=repeats)


def test_costs_of_repeats_are_at_their_median_throughput():
    page = page_of([priced(number, speed=speed) for number, speed in enumerate((50.0, 100.0, 400.0, 1000.0))], "en")
    (group,) = data_of(page)["groups"]
    assert group["figures"]["cost"] == [0.4, 0.1, 2.0, 4, "0.4 USD"]
    assert 'data-metric="cost_per_million_tokens"' in page
    assert 'data-currency="USD"' in page


def test_costs_in_several_currencies_are_not_ranked_together():
    page = page_of([priced(0, "USD", "A"), priced(1, "EUR", "B", speed=50.0)], "en")
    assert "several currencies (EUR, USD)" in page
    assert "several currencies" not in page_of([priced(0), priced(1)], "en")
    assert page.count('data-currency="EUR"') == page.count('data-currency="USD"') == 1


def test_a_comparison_warns_of_disturbed_runs_as_compare_does():
    ((path, result), *others) = some(3)
    busy = replace(result, metrics=replace(result.metrics, other_cpu_share=0.5))
    data = data_of(html([(path, busy), *others], "en"))
    assert [run.get("disturbed") for run in data["runs"][:2]] == [None, None]
    text = "disturbed by other processes (up to 50 % of the cores): its throughput may be too low: run-00000"
    assert data["runs"][2]["disturbed"] == [f"{{side}}: 1 of 1 run {text}"]
    assert data["groups"][0]["disturbed"] == [f"{{side}}: 1 of 3 runs {text}"]


def test_a_run_that_is_named_like_the_second_of_another_name_has_its_own_address():
    names = ["x", "x", "x~2", "x~2", "x"]
    made = [(path, replace(result, run_id=name)) for name, (path, result) in zip(names, some(5), strict=True)]
    keys = [run["key"] for run in data_of(html(made, "en"))["runs"]]
    assert sorted(keys) == ["x", "x~2", "x~2~2", "x~3", "x~4"]


def test_a_throughput_of_a_rank_is_not_called_that_of_a_device():
    hardware = llmperf_schemas.example("result")["hardware"]
    page = html(some(1, hardware=hardware | {"device_share": 0.5}), "en")
    assert "tokens/s per device" not in page
    assert "a rank has 1/2 of a device; whole device 200.0" in page
    assert "whole device 100.0" not in html(some(1, hardware=hardware | {"device_share": 1.0}), "en")

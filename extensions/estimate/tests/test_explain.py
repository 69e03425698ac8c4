"""`llmperf explain`: planted gaps are named, the factors multiply to the gap, and the unknown stays unexplained."""

import json
import shutil
from dataclasses import replace
from math import log, prod

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.types import ProfiledOperation, Result, StepProfile
from llmperf_estimate.explain import explained
from llmperf_estimate.explain_sides import Side, side_of


def share(found, cause):
    """Part of the logarithm of a gap that a cause has."""
    assert prod(each.factor for each in found.factors) == pytest.approx(found.ratio)
    assert found.factors[-1].cause == "unexplained"
    return sum(log(each.factor) for each in found.factors if each.cause == cause) / log(found.ratio)


@pytest.fixture
def planted(run_folder):
    """A function that gives the side of a run with changed values, and the side of the run itself."""

    def change(faster=1.0, **changes):
        folder = run_folder.parent / "planted"
        shutil.copytree(run_folder, folder, dirs_exist_ok=True)
        shutil.rmtree(folder / "records", ignore_errors=True)
        result = json_files.load(run_folder / "result.json", Result)
        steps = replace(result.metrics.step_seconds, mean_low=0.63, mean_high=0.65)
        metrics = replace(result.metrics, step_seconds=steps, other_cpu_share=0.02)
        tokens = metrics.tokens_per_second_per_device
        for name, value in (
            ("run", metrics),
            ("planted", replace(metrics, tokens_per_second_per_device=tokens * faster)),
        ):
            made = replace(result, metrics=value, **(changes if name == "planted" else {}))
            json_files.save(run_folder.parent / name / "result.json", made)
        shutil.rmtree(run_folder / "records", ignore_errors=True)
        return side_of(str(folder), print), side_of(str(run_folder), print)

    return change


def test_another_convention_has_the_whole_gap_of_mfu(planted):
    run, _ = planted()
    known = run.flops
    values = {**run.values, "mfu_nominal": run.mfu * known["causal"] / known["nominal"]}
    row = Side(name="table.md:7", values=values, plan=run.plan, flops=run.flops, peak=run.peak)
    found = explained(run, row, "mfu")
    assert share(found, "convention") > 0.98
    assert "causal" in found.factors[0].evidence[1]


def test_another_peak_has_the_whole_gap_of_mfu(planted):
    _, before = planted()
    peaks = tuple(replace(mfu, peak_flops_per_second=mfu.peak_flops_per_second / 2, value=2 * mfu.value)
                  for mfu in before.result.mfu)  # fmt: skip
    run, before = planted(mfu=peaks)
    assert share(explained(run, before, "mfu"), "peak") == pytest.approx(1)
    assert explained(run, before).ratio == 1


def test_recomputation_is_named_with_what_the_estimate_says(planted):
    _, before = planted()
    tuning = replace(before.result.tuning, gradient_checkpointing=not before.result.tuning.gradient_checkpointing)
    run, before = planted(0.8, tuning=tuning)
    found = explained(run, before)
    assert share(found, "recomputation") == pytest.approx(1)
    assert found.factors[0].how == "the only recorded cause"
    flops, none = {**run.flops, "hfu": before.flops["hfu"] * 4 / 3}, {"rates": None}  # rates: of no known device
    (busy, *_) = explained(
        replace(run, flops=flops, **none, values={**run.values, "dataset": "b"}), replace(before, **none)
    ).factors
    assert (busy.cause, busy.how, busy.factor) == ("recomputation", "formula", pytest.approx(0.75))


def test_a_kernel_path_is_named_and_noise_is_not(planted):
    _, before = planted()
    software = replace(before.result.software, environment={"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"})
    found = explained(*planted(0.5, software=software))
    assert share(found, "kernels") == pytest.approx(1)
    assert "MKL_ENABLE_INSTRUCTIONS unset -> SSE4_2" in found.factors[0].evidence
    found = explained(*planted(0.99, software=software))
    assert [share(found, "unexplained"), len(found.unquantified)] == [1, 1]


def test_a_busy_machine_is_named(planted):
    run, before = planted()
    run = replace(run, values={**run.values, "other_cpu_share": 0.5,
                               "tokens_per_second_per_whole_device": run.tokens / 2})  # fmt: skip
    assert share(explained(run, before), "host") == pytest.approx(1)


def test_without_a_recorded_cause_the_gap_is_unexplained(planted):
    found = explained(*planted(0.7))
    assert [each.cause for each in found.factors] == ["unexplained"]


def profile(mm, calls, idle):
    operations = (ProfiledOperation(name="aten.mm", kind="matmul", seconds=mm, calls=calls),)
    times = {"step_seconds": mm + idle, "idle_seconds": idle, "communication_seconds": 0.0, "overlapped_seconds": 0.0}
    return StepProfile(rank=0, steps=3, profiler="torch.profiler", clock="host", operations=operations, **times)


def test_traces_tell_slow_data_from_slow_calls_and_from_more_calls(planted):
    for cause, ours in {
        "host": profile(0.4, 10, 0.6),  # the step waits for its data
        "kernels": profile(0.9, 10, 0.1),
        "recomputation": profile(0.9, 22.5, 0.1),
    }.items():
        _, before = planted()
        changes = {}
        if cause == "recomputation":
            changes["tuning"] = replace(before.result.tuning, gradient_checkpointing=True)
        run, before = planted(0.5, **changes)
        found = explained(replace(run, profile=ours), replace(before, profile=profile(0.4, 10, 0.1)))
        assert share(found, cause) > 0.9, (cause, found)
        assert found.factors[0].how == "traced"


def test_of_repeats_each_factor_has_an_interval_and_noise_has_no_cause(planted, run_folder, ran):
    result, path = planted()[0].result, run_folder.parent

    def explained_repeats(fast, slow):
        changed = {"ATEN_CPU_CAPABILITY": "default", "TORCH_EXTENSIONS_DIR": "/a"}
        for name, tokens, environment in (("fast", fast, {}), ("slow", slow, changed)):
            for number in range(4):
                (path / name / str(number)).mkdir(parents=True, exist_ok=True)
                metrics = replace(result.metrics, tokens_per_second_per_device=tokens + number)
                software = replace(result.software, environment=environment)
                made = replace(result, run_id=f"{name}-{number}", metrics=metrics, software=software, files={})
                json_files.save(path / name / str(number) / "result.json", made)
        return ran(0, "explain", str(path / "slow"), "--against", str(path / "fast")).out

    out = explained_repeats(100.0, 50.0)
    assert out.startswith("slow is 0.51x fast: kernels 0.51x (the only recorded cause), unexplained 1.00x\n")
    assert "95 % interval of the ratio 0.49 to 0.53 (4 + 4 runs)" in out
    assert "0.49-0.53" in out
    assert "TORCH_EXTENSIONS_DIR" not in out
    out = explained_repeats(100.0, 99.0)
    assert out.startswith("slow is 0.99x fast, within the noise: unexplained 0.99x; no cause is named\n")
    assert "differs too, by an unknown factor: ATEN_CPU_CAPABILITY unset -> default" in out
    one = ran(0, "explain", str(path / "slow" / "0"), "--against", str(path / "fast" / "0")).out
    assert "one run: no interval" in one


def test_traced_noise_is_no_kernel(planted):
    run, before = (replace(side, profile=profile(0.4, 10, 0.1)) for side in planted(0.5))
    noisy = [replace(run, profile=profile(mm, 10, 0.6)) for mm in (0.3, 0.4, 0.5, 0.4)]
    found = explained(replace(run, profile=profile(0.4, 10, 0.6), repeats=tuple(noisy)), before)
    assert [each.cause for each in found.factors] == ["host", "unexplained"]
    assert found.factors[0].low < found.factors[0].factor < found.factors[0].high
    unlike = explained(replace(run, profile=profile(0.2, 10, 0.1)), replace(before, profile=profile(0.9, 10, 0.1)))
    assert [each.cause for each in unlike.factors] == ["unexplained"]
    assert unlike.traced_ratio > 1


def test_the_first_line_is_the_answer(planted, run_folder, ran):
    planted(0.5)
    words = ["explain", str(run_folder.parent / "planted"), "--against", str(run_folder)]
    assert ran(0, *words).out.startswith("planted is 0.50x run: unexplained 0.50x\n")
    document = json.loads(ran(0, *words, "--json").out)
    assert document["factors"][0]["cause"] == "unexplained"
    assert call([*words, "--lang", "zh", "--out", str(run_folder.parent / "a.md")]) == 0
    assert "0.50x" in (run_folder.parent / "a.md").read_text()
    assert "llama2_7b_lora_a100.md:65" in ran(2, *words[:-1], "llama2_7b_lora_a100.md:66").err

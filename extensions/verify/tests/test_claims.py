"""A submission's claims beside what its rerun measured: better than here, alike, or not compared and why."""

import json
from dataclasses import replace

import numpy as np
import pytest
from llmperf import open_batches
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.reporting import word
from llmperf.types.devices import PeakFlops
from llmperf.types.hosts import BusyProgram, LoadBefore, NodeConditions
from llmperf.types.result import LossPoint, Result, StepStatistics
from llmperf_testing.reference import AdamW, Llama
from llmperf_verify import rerun
from llmperf_verify.claims import Measured, claim_checks, claims_text, differences
from llmperf_verify.rerun_comparison import FP8, FP32, REDUCED, bounds_of, losses, norms
from llmperf_verify.verification import LevelCheck, Standing

SECONDS = (0.9, 0.5, 0.52, 0.55, 0.5, 0.56)
"""Of steps 1 to 6."""


def statistics(seconds):
    middle = sorted(seconds)[len(seconds) // 2]
    return StepStatistics(median=middle, p5=min(seconds), p95=max(seconds), mean=middle, mean_low=None, mean_high=None)


@pytest.fixture
def run(run_folder):
    """A run on an idle host CPU whose peak was measured, changed as asked."""
    read = json_files.load(run_folder / "result.json", Result)
    idle = NodeConditions(node_rank=0, before=LoadBefore(other_cpu_share=0.01), other_cpu_share=0.02)
    mfu = replace(read.mfu[0], peak_confidence="measured", peak_dtype="bf16", peak_flops_per_second=1e12)

    def made(times=1.0, memory=1.0, joules=None, peak=1.0, share=0.02, cores=8, on_cpu=True, **changes):
        seconds = [value * times for value in SECONDS]
        ranks = tuple(replace(rank, peak_bytes=int(memory * 2**30)) for rank in read.metrics.rank_memory)
        metrics = replace(
            read.metrics,
            step_seconds=statistics(seconds[1:]),
            rank_memory=ranks,
            joules_per_token=joules,
            other_cpu_share=share,
            other_processes=None,
            throttling=None,
        )
        hardware = replace(read.hardware, device_share=0.5)
        own = replace(mfu, peak_flops_per_second=peak * mfu.peak_flops_per_second)
        result = replace(read, metrics=metrics, hardware=hardware, mfu=(own,), conditions=(idle,), peak_again=None)
        steps = dict(enumerate(seconds, 1))
        return Measured(result=replace(result, **changes), step_seconds=steps, cores=cores, on_cpu=on_cpu)

    return made


def outcomes(checks):
    return {check.claim: check.outcome for check in checks}


def test_a_run_beside_itself_and_beside_a_faster_machine(run):
    alike = {"speed": "agrees", "memory": "agrees", "peak": "agrees"}
    assert outcomes(claim_checks(run(), run(), None)) == alike
    checks = claim_checks(run(), run(times=0.5, memory=0.5, peak=0.5), None)
    assert outcomes(checks) == alike
    assert claims_text(checks, "").endswith("times as good as here: speed 0.48, memory 0.50, peak 0.50")


@pytest.mark.parametrize(("cheat", "claim", "figures"), [
    ({"times": 0.8}, "speed", "steps 2 to 6 took 0.416 s, here 0.52 s (medians); all measured steps 0.416 s (median),"
     " the fastest here 0.5 s: 1.25 times as good as here, expected at most 1.17"),
    ({"memory": 0.5}, "memory", "512 MiB on rank 0, here 1,024 MiB on rank 0: 2.00 times"),
    ({"joules": 1.0}, "energy", "1 J per token, here 10 J per token: 10.00 times"),
    ({"peak": 0.6}, "peak", "1.2 TFLOP/s, here 2 TFLOP/s: 1.67 times"),
])  # fmt: skip
def test_a_claim_that_is_too_good(run, cheat, claim, figures):
    here = run(joules=10.0 if claim == "energy" else None)
    better = [check for check in claim_checks(run(**cheat), here, None) if check.outcome == "better"]
    assert [check.claim for check in better] == [claim]
    assert figures in better[0].message
    assert better[0].times_as_good == pytest.approx(better[0].here / better[0].submitted, rel=0.2)


def test_forgery_a_peak_called_published_is_compared_with_what_is_measured_here(run):
    submitted = run(peak=0.2)
    (mfu,) = submitted.result.mfu
    called = replace(submitted.result, mfu=(replace(mfu, peak_confidence="datasheet"),))
    assert outcomes(claim_checks(replace(submitted, result=called), run(), None))["peak"] == "better"
    published = replace(run().result, mfu=(replace(mfu, peak_confidence="datasheet"),))
    checks = claim_checks(replace(submitted, result=called), replace(run(), result=published), None)
    assert "peak" not in outcomes(checks)  # nobody measures it


@pytest.mark.parametrize(("cheat", "claim"), [({"times": 0.84}, "speed"), ({"memory": 0.9}, "memory")])
def test_tolerances_are_narrower_between_machines_that_are_alike_and_idle(run, cheat, claim):
    here = run()
    assert outcomes(claim_checks(run(**cheat), here, None))[claim] == "better"
    other = replace(here.result, software=replace(here.result.software, kernel="6.0.0"))
    assert outcomes(claim_checks(run(**cheat), replace(here, result=other), None))[claim] == "agrees"
    assert outcomes(claim_checks(run(share=0.3, **cheat), here, None))[claim] == "agrees"  # was disturbed


def test_measured_steps_that_were_scaled_alone(run):
    submitted = run()
    later = replace(submitted.result.metrics, step_seconds=statistics([0.3, 0.31, 0.32]))
    speed, *_ = claim_checks(replace(submitted, result=replace(submitted.result, metrics=later)), run(), None)
    assert (speed.outcome, speed.times_as_good) == ("better", pytest.approx(0.5 / 0.31))


def test_a_step_here_that_was_as_fast_shows_that_the_claim_is_possible(run):
    here = run()
    slow = {step: 2 * seconds for step, seconds in here.step_seconds.items()}
    assert claim_checks(run(), replace(here, step_seconds=slow), None)[0].outcome == "better"
    assert claim_checks(run(), replace(here, step_seconds={**slow, 4: 0.5}), None)[0].outcome == "agrees"


def test_a_busy_machine_compares_no_times_and_no_energy(run):
    here = run(times=3.0, joules=30.0, share=0.4)
    checks = claim_checks(run(joules=10.0), here, None)
    assert outcomes(checks) == {
        "speed": "not compared", "memory": "agrees", "energy": "not compared", "peak": "not compared",
    }  # fmt: skip
    disturbed = (
        "speed not compared, nor energy, peak: this machine was disturbed: other processes used 40 % of the cores"
    )
    assert claims_text(checks, "").endswith(disturbed)
    busy_before = (NodeConditions(node_rank=0, before=LoadBefore(other_cpu_share=0.5)),)
    before = replace(run().result, conditions=busy_before)
    assert "other processes use 50 %" in claim_checks(run(), replace(run(), result=before), None)[0].message
    unknown = replace(run(share=None).result, conditions=())
    message = claim_checks(run(), replace(run(), result=unknown), None)[0].message
    assert message == "what else this machine did is unknown"


def test_a_busy_machine_still_shows_a_peak_that_is_too_low(run):
    assert outcomes(claim_checks(run(peak=0.5), run(share=0.4), None))["peak"] == "better"
    peak = PeakFlops(device_model="x", dtype="bf16", flops_per_second=4e12, source="", date="", confidence="measured")
    assert outcomes(claim_checks(run(), run(peak_again=peak), None))["peak"] == "better"


def test_other_devices_cores_layouts_and_options_compare_no_speed(run):
    def reason(submitted, here, layout=None):
        return claim_checks(submitted, here, layout)[0].message

    gpu = replace(run().result.hardware, vendor="nvidia", device_model="NVIDIA H800")
    assert reason(run(hardware=gpu), run()).startswith("it ran on NVIDIA H800 (nvidia), the rerun on ")
    assert reason(run(cores=64), run()) == "it ran on 64 cores, the rerun on 8 cores"
    layout = "its layout cannot run here: expected 8 devices; found 1"
    assert reason(run(), run(), layout) == layout
    assert outcomes(claim_checks(run(peak=0.5), run(), layout))["peak"] == "better"
    options = "a rerun takes no framework options from a submission: offload"
    assert reason(run(framework={"offload": "parameters"}), run()) == options


def test_too_few_steps_compare_no_speed(run):
    here = replace(run(), step_seconds={2: 0.5, 3: 0.5})
    assert "expected --rerun 4 or more" in claim_checks(run(), here, None)[0].message


def test_slow_first_steps_are_compared_where_both_runs_have_them(run):
    def with_slow(times, seconds):
        made = run(times=times)
        return replace(made, step_seconds={**made.step_seconds, 2: seconds})

    assert claim_checks(with_slow(0.8, 8.0), with_slow(1.0, 10.0), None)[0].outcome == "better"
    message = claim_checks(with_slow(0.8, 0.4), with_slow(1.0, 10.0), None)[0].message
    assert message == "steps took 1.2 to 20 times as long as there: one of the runs was disturbed"


def test_memory_of_whole_devices_is_compared_where_they_are_not_the_host(run):
    used = replace(run().result.metrics, device_memory_used_bytes=40 * 2**30)
    half = replace(run().result.metrics, device_memory_used_bytes=20 * 2**30)
    checks = claim_checks(run(metrics=half, on_cpu=False), run(metrics=used, on_cpu=False), None)
    assert outcomes(checks)["device-memory"] == "better"
    assert "device-memory" not in outcomes(claim_checks(run(metrics=half), run(metrics=used), None))


def test_versions_and_kernels_that_differ_are_named(run):
    result = run().result
    assert differences(result, result) == ""
    packages = {**result.software.packages, "torch": "2.9.1"}
    software = replace(result.software, packages=packages, notable_packages=("torch",))
    here = replace(result, software=replace(software, packages={**packages, "torch": "2.15.0"}))
    other = replace(result, software=software, kernels={**here.kernels, "attention": "flash"})
    assert differences(other, here).startswith("; different here: torch 2.9.1 -> 2.15.0, kernels.attention flash -> ")


def test_a_better_claim_is_a_warning_that_is_recorded_and_shown(run, run_folder, monkeypatch, capsys):
    claims = claim_checks(run(times=0.5), run(), None)
    used = run(share=0.4)
    programs = replace(used.result.conditions[0], programs=(BusyProgram(name="cc1plus", cpu_share=0.4),))
    used = replace(used, result=replace(used.result, conditions=(programs,)))
    busy = claims_text(claim_checks(run(joules=1.0), used, None), "; different here: torch 2.9.1 -> 2.15.0")
    losses = (
        "loss differs by at most 0.0e+00 nats per token (bound 1.4e-05, step 5);"
        " gradient norm differs by at most 4.8e-07 (bound 1.4e-05, step 5)"
    )
    message = f"5 steps by pytorch (the submitter's own framework) fp32 on 2 ranks: {losses}; {busy}"
    check = LevelCheck(level="rerun", outcome="passed", message=message, claims=claims)
    monkeypatch.setattr(rerun, "rerun_check", lambda *arguments: check)
    call(["validate", str(run_folder), "--rerun", "5", "--record"])
    output = capsys.readouterr().out
    assert f"LP671 note {message}" in output
    chinese = word(busy, "zh")
    assert "声称值为此处测得值的倍数：memory 1.00; different here: torch 2.9.1 -> 2.15.0" in chinese
    assert "未比较 speed, energy, peak：本机受到干扰：其他进程占用 40 % 的 CPU 核（cc1plus 40 %）" in chinese
    assert "LP677 warning speed: steps 2 to 6 took 0.26 s, here 0.52 s (medians)" in output
    assert "repeat the rerun on an idle machine, then ask for a witness" in output
    recorded = json.loads((run_folder / "verification.json").read_text())["results"][0]["checks"][-1]["claims"]
    assert [(claim["claim"], claim["outcome"]) for claim in recorded] == [
        ("speed", "better"), ("memory", "agrees"), ("peak", "agrees"),
    ]  # fmt: skip
    assert Standing(checks=(check,), by=None).label == "rerun; better than the rerun: speed (claimed)"
    compared = replace(check, claims=claim_checks(run(), run(), None))
    assert Standing(checks=(compared,), by=None).label == "rerun; speed compared (claimed)"


STEPS = 5


@pytest.fixture(scope="module")
def plan():
    settings = ("seq_len=16", "contract.steps=30", "sharding_stage=0", "micro_batch=1", "model=llama3_tiny")
    made = plan_only(Selection("default", framework="pytorch", settings=settings), Site(vendor="cpu", devices=2)).plan
    smaller = replace(made.spec.model, vocab_size=256, hidden_size=32, intermediate_size=64, layers=2)
    return replace(made, spec=replace(made.spec, model=smaller))


def bf16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def curve(plan, cheat="none"):
    """Losses and gradient norms of the first steps, trained with a cheat."""
    contract, model, ranks = plan.spec.contract, plan.spec.model, plan.batch.data_parallel
    optimizer = contract.optimizer
    if cheat == "fewer layers":
        model = replace(model, layers=1)
    if cheat == "another learning rate":
        optimizer = replace(optimizer, lr=1.1 * optimizer.lr)
    if cheat == "no clipping":
        optimizer = replace(optimizer, clip_norm=None)
    if cheat == "no weight decay":
        optimizer = replace(optimizer, weight_decay=0.0)
    llama = Llama(model, seed=contract.seed + (cheat == "another seed"))
    adamw = AdamW(llama.weights, optimizer, contract.steps)
    opened = [open_batches(plan, rank) for rank in range(ranks)]
    rows, points = None, []
    for step in range(1, STEPS + 1):
        micro, sums = [], []
        for batches in opened:
            for number in range(plan.batch.gradient_accumulation):
                if not (cheat == "repeated tokens" and rows is not None):
                    rows = batches.next_micro_batch()
                if cheat == "half batches" and number % 2:
                    continue
                micro.append(llama.learn(rows))
            sums.append(dict(llama.gradients))
            llama.gradients.clear()
        used = sums[:1] if cheat in ("no reduction", "one rank's data") else sums
        shared = len(micro) // ranks * len(used)
        gradients = {name: sum(part[name] for part in used) / shared for name in sums[0]}
        loss = np.mean(micro[: len(micro) // ranks] if cheat == "one rank's data" else micro)
        norm = np.sqrt(sum(float(np.square(part).sum()) for part in gradients.values()))
        points.append(LossPoint(step=step, loss=float(loss), grad_norm=float(norm)))
        if not (cheat == "no optimiser" or (cheat == "every third step skipped" and step % 3 == 0)):
            adamw.update(gradients)
        if cheat == "bf16":
            for weight in llama.weights.values():
                weight[...] = bf16(weight)
    for batches in opened:
        batches.close()
    return points


@pytest.fixture(scope="module")
def honest(plan):
    return curve(plan)


def test_an_honest_curve_is_within_the_bounds(plan, honest):
    rounded = [replace(point, loss=float(np.float32(point.loss))) for point in honest]
    assert losses(rounded, honest, FP32).within
    assert norms(rounded, honest, FP32).within


CHEATS = (
    *("no optimiser", "no reduction", "one rank's data", "half batches", "fewer layers", "another learning rate"),
    *("repeated tokens", "every third step skipped", "another seed", "no clipping", "bf16"),
)


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_rerun_shows(cheat, plan, honest):
    forged = curve(plan, cheat)
    loss, norm = losses(forged, honest, FP32), norms(forged, honest, FP32)
    assert not loss.within, f"{loss.text}; {norm.text}"


def test_missing_weight_decay_does_not_show_in_few_steps(plan, honest):
    assert losses(curve(plan, "no weight decay"), honest, FP32).within


def test_invented_losses_show(honest):
    first, last = honest[0].loss, honest[-1].loss
    line = [replace(point, loss=first + (last - first) * (point.step - 1) / (STEPS - 1)) for point in honest]
    for invented in (line, [replace(point, loss=first) for point in honest]):
        difference = losses(invented, honest, FP32)
        assert not difference.within
        assert difference.text.startswith("loss differs by ")
        assert f"step {difference.step}" in difference.text


def test_a_step_without_a_loss_is_passed_over(honest):
    gaps = [replace(point, loss=None if point.step == 2 else point.loss, grad_norm=None) for point in honest]
    assert losses(gaps, honest, FP32).steps == STEPS - 1
    assert norms(gaps, honest, FP32) is None


def test_only_two_runs_in_fp32_have_the_narrow_bounds():
    assert bounds_of("fp32", "fp32") == FP32
    assert bounds_of("bf16", "fp32") == bounds_of("fp16", "fp16") == REDUCED
    assert bounds_of("fp8_rowwise", "fp32") == FP8
    assert FP8.of_loss(5) > REDUCED.of_loss(5) > REDUCED.of_loss(1) > FP32.of_loss(5)

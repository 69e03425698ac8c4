"""A rerun of a submission: what it takes from the submission, when it is impossible, and a whole one."""

import platform
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from llmperf import load_plan
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.types.result import LossPoint, Result
from llmperf.types.spec import Lora
from llmperf_verify import rerun as rerun_module
from llmperf_verify.documents import Impossible
from llmperf_verify.rerun import _Progress, default_steps, rerun_check
from llmperf_verify.rerun_comparison import compared
from llmperf_verify.rerun_plan import RerunPlan, plan_rerun
from llmperf_verify.verification import ClaimCheck, LevelCheck


@pytest.fixture
def result(run_folder, monkeypatch, tmp_path):
    """A submission of the default case in fp32 that ran by pytorch, read as anybody reads it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    read = json_files.load(run_folder / "result.json", Result)
    contract = replace(read.contract, precision="fp32", dataset="synthetic", steps=30, warmup_steps=5)
    curve = tuple(LossPoint(step=step, loss=8.0, grad_norm=1.0) for step in range(1, 31))
    tuning = replace(read.tuning, framework="pytorch")
    return replace(read, contract=contract, tuning=tuning, loss_curve=curve, loss_curve_every=1)


def contract_with(result, **changes):
    return replace(result, contract=replace(result.contract, **changes))


def test_the_plan_has_the_contract_and_stops_early(result):
    plan = plan_rerun(result, 5, None).plan
    assert replace(plan.spec.contract, warmup_steps=5) == result.contract
    assert plan.spec.model == result.model
    assert (plan.steps, plan.purpose, plan.spec.contract.steps) == (5, "rerun", 30)
    assert plan.spec.tuning.framework == "pytorch"
    assert plan.layout.world_size == 1
    assert plan.batch.tokens_per_step == result.contract.global_batch * result.contract.seq_len


def test_nothing_of_the_submitters_machine_is_taken(result):
    hostile = replace(
        result,
        framework={"offload": "parameters"},
        software=replace(result.software, environment={"LD_PRELOAD": "/tmp/evil.so"}, worker_environment="/tmp/evil"),
    )
    plan = plan_rerun(hostile, 5, None).plan
    assert plan.spec.framework == {}
    assert plan.interpreter is None
    assert "evil" not in json_files.encode(plan).decode()


def on_this_cpu(result, **tuning):
    """The same submission from a host with the CPU of this one."""
    model = plan_rerun(result, 5, None).plan.probe.devices[0].model
    hardware = replace(result.hardware, vendor="cpu", device_model=model)
    own = {"devices": 1, "micro_batch": 1, "gradient_accumulation": None, "sharding_stage": 0, **tuning}
    return replace(result, hardware=hardware, tuning=replace(result.tuning, nodes=1, **own))


def test_on_the_same_device_model_layout_and_tuning_are_the_submissions(result):
    tuning = {"devices": 2, "micro_batch": 1, "gradient_checkpointing": True, "attention": "eager"}
    rerun = plan_rerun(replace(on_this_cpu(result, **tuning), framework={"offload": "parameters"}), 5, None)
    plan = rerun.plan
    assert rerun.other_layout is None
    assert {name: getattr(plan.spec.tuning, name) for name in tuning} == tuning
    assert plan.layout.world_size == 2
    assert plan.spec.framework == {}


@pytest.mark.slow
def test_why_the_layout_is_another(result):
    assert "and this machine has" in plan_rerun(result, 5, None).other_layout
    same = on_this_cpu(result)
    assert plan_rerun(same, 5, "zero").other_layout == "it trained by pytorch, the rerun by zero"
    several = replace(same, tuning=replace(same.tuning, nodes=2))
    assert plan_rerun(several, 5, None).other_layout == "it ran on 2 nodes"
    many = plan_rerun(replace(same, tuning=replace(same.tuning, devices=64, micro_batch=1)), 5, None)
    assert many.plan.layout.world_size == 1
    absent = replace(same, tuning=replace(same.tuning, framework="absent"))
    assert plan_rerun(absent, 5, None).other_layout == "it trained by absent, which is not installed"


def test_another_framework_can_be_chosen(result):
    assert plan_rerun(result, 5, "zero").plan.spec.tuning.framework == "zero"


@pytest.mark.slow
def test_a_recipe_that_this_machine_lacks_is_replaced_by_fp32(result):
    rerun = plan_rerun(contract_with(result, precision="fp16"), 5, "pytorch")
    assert rerun.precision == rerun.plan.spec.contract.precision == "fp32"


def impossible(result, steps=5, **options):
    check = rerun_check(result.run_id, result, steps, **options)
    assert check.outcome == "impossible"
    assert check.level == "rerun"
    return check.message


@pytest.mark.parametrize(
    ("measured", "trainings", "counted"),
    [
        (["agrees"], 1, "agrees"),
        (["better", "agrees"], 2, "agrees"),
        (["better", "better"], 2, "better"),
        (["better", "failed"], 2, "better"),
        (["failed"], 1, "failed"),
    ],
)
def test_a_claim_that_is_better_is_measured_again(result, monkeypatch, measured, trainings, counted):
    given = iter(measured)

    def trained(*_):
        if (outcome := next(given)) == "failed":
            return LevelCheck(level="rerun", outcome="failed", message=outcome)
        claim = ClaimCheck(claim="speed", outcome=outcome, message=outcome)
        return LevelCheck(level="rerun", outcome="passed", message=outcome, claims=(claim,))

    monkeypatch.setattr(rerun_module, "_trained", trained)
    lines = []
    check = rerun_check(Path(result.run_id), result, 5, say=lines.append)
    assert check.message == counted
    assert len(measured) - len(list(given)) == trainings
    assert ("once more" in lines[-1]) == (trainings == 2)


@pytest.mark.slow
def test_a_model_that_does_not_fit_is_impossible(result):
    huge = replace(result.model, hidden_size=16384, intermediate_size=65536, layers=200, attention_heads=128)
    message = impossible(replace(result, model=huge))
    assert "framework pytorch cannot train it: weights, gradients and optimiser states need" in message
    assert "; nor can " in message
    assert "use more devices" not in message


THIN = {"loss_curve": (LossPoint(step=1, loss=8.0), LossPoint(step=17, loss=7.0)), "loss_curve_every": 16}
IMPOSSIBLE = [
    (lambda result: contract_with(result, lora=Lora(dropout=0.1)), {}, "dropout"),
    (lambda result: contract_with(replace(result, software=replace(result.software, python="3.9.1")),
                                  dataset="python-stdlib"),
     {}, "its data are the library of Python 3.9.1; this is Python"),
    (lambda result: replace(result, model=replace(result.model, layers=-1)), {}, "layers"),
    (lambda result: replace(result, **THIN), {}, "expected --rerun 17 or more"),
    (lambda result: result, {"limit_seconds": 1e-6}, "more than the limit of"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "options", "told"), IMPOSSIBLE)
def test_what_cannot_be_trained_here_is_impossible(result, changed, options, told):
    assert told in impossible(changed(result), **options)


def test_without_an_estimate_the_limit_is_that_of_a_slow_machine(result, monkeypatch):
    def planned(*arguments):
        rerun = plan_rerun(*arguments)
        flops = replace(rerun.plan.flops, parameters=10**15, active_parameters=None)
        return replace(rerun, plan=replace(rerun.plan, expected_step_seconds=None, flops=flops))

    monkeypatch.setattr(rerun_module, "plan_rerun", planned)
    assert "5 steps would take about" in (message := impossible(result))
    assert "h, more than the limit of 6 h" in message


@pytest.mark.slow
def test_data_of_this_python_are_used(result):
    same = replace(result, software=replace(result.software, python=platform.python_version()))
    rerun = plan_rerun(contract_with(same, dataset="python-stdlib"), 5, None)
    assert rerun.plan.spec.contract.dataset == "python-stdlib"


def test_a_file_of_data_is_the_validators_own(result, tmp_path):
    with pytest.raises(Impossible, match=r"name it in your own llmperf.toml, \[data.corpus\] path"):
        plan_rerun(contract_with(result, dataset="corpus"), 5, None)
    folder = tmp_path / "config" / "llmperf"
    folder.mkdir(parents=True)
    (folder / "corpus.txt").write_text("some text " * 50_000)
    (folder / "llmperf.toml").write_text('[data.corpus]\npath = "corpus.txt"\n')
    rerun = plan_rerun(contract_with(result, dataset="corpus"), 5, None)
    assert rerun.plan.spec.data.path == str(folder / "corpus.txt")
    other = replace(contract_with(result, dataset="corpus"), data_fingerprint="ab" * 32)
    with pytest.raises(Impossible, match="its data set 'corpus' has other tokens than the one of that name here"):
        plan_rerun(other, 5, None)


def test_framework_needs_rerun(run_folder, ran):
    assert "--framework belongs to --rerun." in ran(2, "validate", run_folder, "--framework", "zero").err


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_honest_run_passes_and_forged_losses_fail(tmp_path, monkeypatch, ran, capsys):
    monkeypatch.chdir(tmp_path)
    settings = [f"--set={setting}" for setting in (
        "model=llama3_tiny", "seq_len=32", "contract.steps=8", "warmup_steps=2", "sharding_stage=0", "lr=0.01",
    )]  # fmt: skip
    assert call(["run", "default", "--framework", "pytorch", "--devices", "2", *settings, "--out", "runs"]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    capsys.readouterr()
    output = ran(0, "validate", folder, "--rerun", "4")
    assert (
        "LP671 note 4 steps by pytorch (the submitter's own framework) fp32 on 2 ranks: loss differs by at most"
        in output.out
    )
    unlike = [line for line in output.out.splitlines() if "LP677" in line]  # the peak of the tests is made up
    assert all("LP677 warning peak:" in line for line in unlike), unlike
    assert "memory" in output.out
    assert "rerun: step 4 of 4: loss" in output.err

    result = json_files.load(folder / "result.json", Result)
    rerun = RerunPlan(run=None, plan=load_plan(folder), precision="fp32")
    forged = [replace(point, loss=point.loss + 1e-3) for point in result.loss_curve]
    check = compared(rerun, result, forged, result, 8)
    assert check.outcome == "failed"
    assert "loss differs by 1.0e-03 nats per token" in check.message
    assert check.figures["largest_loss_difference"] == pytest.approx(1e-3)
    larger = compared(rerun, result, result.loss_curve, replace(result, parameters=result.parameters + 1), 8)
    assert f"parameters: submitted {result.parameters + 1:,}, {result.parameters:,} here" in larger.message


@pytest.mark.parametrize(("steps", "warmup", "every", "expected"), [(30, 5, 1, 10), (8, 5, 1, 8), (100, 10, 2, 20)])
def test_a_rerun_without_a_number_goes_beyond_the_warm_up(result, steps, warmup, every, expected):
    changed = replace(contract_with(result, steps=steps, warmup_steps=warmup), loss_curve_every=every)
    assert default_steps(changed) == expected


def test_the_number_of_a_rerun_may_be_left_out_after_the_paths(run_folder, monkeypatch, ran):
    asked = []

    def check(folder, result, steps, *others):
        asked.append(steps)
        return LevelCheck(level="rerun", outcome="passed", message="…")

    monkeypatch.setattr(rerun_module, "rerun_check", check)
    contract = json_files.load(run_folder / "result.json", Result).contract
    assert call(["validate", str(run_folder), "--rerun"]) == 0
    assert call(["validate", str(run_folder), "--rerun", "3"]) == 0
    assert asked == [min(contract.warmup_steps + 5, contract.steps), 3]
    assert "without a number, paths come before it" in ran(2, "validate", "--rerun", run_folder).err


STEPS = 8


def curve(steps=STEPS, loss=8.0, slope=0.1, norm=1.0):
    return [LossPoint(step=step, loss=loss - slope * step, grad_norm=norm) for step in range(1, steps + 1)]


@pytest.fixture
def check(run_folder):
    """Compares a submitted curve with one of this machine."""
    read = json_files.load(run_folder / "result.json", Result)
    contract = replace(read.contract, precision="fp32", steps=STEPS)
    read = replace(read, contract=contract, loss_curve_every=1, tuning=replace(read.tuning, framework="pytorch"))

    def compare(submitted, here, *, asked=STEPS, skipped=None, framework="pytorch", stage=None, precision="fp32"):
        result = replace(read, loss_curve=tuple(submitted))
        tuning = replace(result.tuning, framework=framework)
        tuning = tuning if stage is None else replace(tuning, sharding_stage=stage)
        plan = SimpleNamespace(
            spec=SimpleNamespace(tuning=tuning), batch=result.batch, layout=SimpleNamespace(world_size=1),
            flops=SimpleNamespace(parameters=result.parameters),
        )  # fmt: skip
        rerun = SimpleNamespace(plan=plan, precision=precision)
        return compared(rerun, SimpleNamespace(loss_curve=here), submitted, result, asked, skipped)

    return compare


def test_losses_that_agree_pass_and_the_framework_and_its_steps_are_named(check):
    passed = check(curve(), curve())
    assert passed.outcome == "passed"
    assert passed.message.startswith("8 steps by pytorch (the submitter's own framework) fp32 on 1 rank: loss differs")
    assert "own framework" not in check(curve(), curve(), framework="zero").message
    message = check(curve(), curve(), asked=99).message
    assert message.startswith("8 steps (asked for 99; the run has no more) by pytorch")


def test_losses_that_stay_where_they_begin_prove_nothing(check):
    still = curve(slope=0.0)
    stays = check(still, still)
    assert stays.outcome == "impossible"
    assert "the losses move by less than the bound, and so a guess would agree, too" in stays.message
    assert check([replace(point, loss=point.loss + 0.5) for point in still], still).outcome == "failed"


def test_fewer_steps_than_asked_for_prove_nothing(check):
    short = check(curve(2), curve(2))
    assert short.outcome == "impossible"
    assert "expected the losses of 8 steps, found 2" in short.message


def test_a_skipped_update_cannot_be_followed_in_fp32(check):
    later = [replace(point, loss=point.loss + (point.step > 3)) for point in curve()]
    skipped = check(later, curve(), skipped=3)
    assert skipped.outcome == "impossible"
    assert "skipped the update of step 3, which a rerun in another precision cannot follow" in skipped.message
    assert check(later, curve()).outcome == "failed"


def test_gradient_norms_that_were_left_out(check):
    without = [replace(point, grad_norm=None) for point in curve()]
    left_out = check(without, curve())
    assert left_out.outcome == "failed"
    assert "the submission has no gradient norm of step 1, 2, 3, 4, 5, and this framework recorded" in left_out.message
    assert check([*without[:1], *curve()[1:]], curve()).outcome == "failed"
    assert check(without, curve(), stage=3).outcome == "impossible"
    other = check(without, curve(), framework="zero")
    assert other.outcome == "passed"
    assert "gradient norms were not compared" in other.message


def test_a_slow_first_step_ends_the_rerun():
    progress = _Progress(SimpleNamespace(steps=5), [], lambda line: None, limit_seconds=100)
    quick = SimpleNamespace(step=1, step_seconds=20, loss=None)
    progress.observe(SimpleNamespace(steps=5), [quick])
    with pytest.raises(Impossible, match="more than the limit"):
        progress.observe(SimpleNamespace(steps=5), [SimpleNamespace(step=1, step_seconds=30, loss=None)])

"""Runs held against a reference."""

import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.files.json_files import convert
from llmperf.types import Result
from llmperf_compare.align import drawn, marks, verdict
from llmperf_compare.alignment import align

STEPS = 30
NUMBER = count()


def result(example, losses, **changed):
    """The example result with another loss curve, and other values at its top or in its contract."""
    document = json.loads(json.dumps(example))
    points = [{"step": step, "loss": loss, "nonfinite": None, "grad_norm": None} for step, loss in losses.items()]
    document["loss_curve"] = points
    document["contract"] |= changed.pop("contract", {})
    document["run_id"] = f"run-{next(NUMBER)}"
    document["files"]["records/rank-00000.jsonl"] = f"{next(NUMBER):064x}"
    document["metrics"] |= {"window_seconds": document["metrics"]["window_seconds"] + next(NUMBER) * 1e-9}
    return document | changed


def curve(apart=0.0, steps=STEPS):
    return {step: (8.0 - 0.1 * step) * (1 + apart) for step in range(1, steps + 1)}


def read(document) -> Result:
    return convert(document, Result, "result")


@given(apart=st.floats(0.0001, 0.5))
def test_two_percent_from_the_21st_step_on_is_the_limit(apart):
    import llmperf_schemas

    example = llmperf_schemas.example("result")
    reference = read(result(example, curve()))
    early = {step: loss * (1 + 10 * apart) if step < 21 else loss for step, loss in curve().items()}
    assert align(read(result(example, early)), reference).passed
    found = align(read(result(example, curve(apart))), reference)
    assert found.mean_relative == pytest.approx(apart)
    assert found.passed == (apart < 0.02)


@pytest.mark.parametrize("same", ["run_id", "files"])
def test_a_run_is_not_held_against_itself(example, same):
    one = result(example, curve())
    other = read(result(example, curve(), **{same: one[same]}))
    found = align(read(one), other)
    assert found.passed is None
    assert found.why == ("both are one and the same run",)


@pytest.mark.parametrize("diverged", [0, 1])
def test_a_run_that_lost_its_loss_is_not_aligned(example, diverged):
    documents = [result(example, curve()), result(example, curve())]
    for point in documents[diverged]["loss_curve"][21:]:
        point |= {"loss": None, "nonfinite": "nan"}
    found = align(*map(read, documents))
    assert found.passed is False
    assert f"the loss of {documents[diverged]['run_id']} is nan at step 22, no number at 9 in all" in found.why


@pytest.mark.parametrize("failed", [0, 1])
def test_a_failed_run_is_not_aligned(example, failed):
    documents = [result(example, curve()), result(example, curve())]
    documents[failed]["status"] = "failed"
    found = align(*map(read, documents))
    assert found.passed is False
    assert found.why == (f"{documents[failed]['run_id']} is failed",)


@pytest.mark.parametrize(
    "contract", [{"model": "other"}, {"dataset": "samsum"}, {"seq_len": 64}, {"global_batch": 8}, {"seed": 7}]
)
def test_a_run_on_another_contract_is_not_called_aligned(example, contract):
    found = align(read(result(example, curve(), contract=contract)), read(result(example, curve())))
    assert found.passed is None
    assert found.why == (f"another {next(iter(contract))} than the reference",)


def test_a_model_of_the_same_name_with_other_facts_is_another(example):
    other = example["model"] | {"layers": example["model"]["layers"] + 1}
    found = align(read(result(example, curve(), model=other)), read(result(example, curve())))
    assert (found.passed, found.unlike) == (None, ("model",))
    described = example["model"] | {"title": "in other words"}
    assert align(read(result(example, curve(), model=described)), read(result(example, curve()))).passed


def test_precision_may_differ(example):
    found = align(read(result(example, curve(), contract={"precision": "bf16"})), read(result(example, curve())))
    assert (found.passed, found.unlike) == (True, ("precision",))


def test_the_difference_of_another_recipe_is_said_with_that_of_the_case(example):
    losses = {step: loss + (0.25 if step == 25 else 0.0) for step, loss in curve().items()}
    fp8 = read(result(example, losses, contract={"precision": "fp8_rowwise"}, emulated=True))
    changed = {"path": "contract.precision", "case_value": "bf16", "value": "fp32", "origin": "--set"}
    reference = read(result(example, curve(), fix_hp=[changed]))
    alignment = align(fp8, reference)
    assert alignment.mean_absolute == pytest.approx(0.25 / STEPS)
    assert (alignment.largest_absolute, alignment.largest_step) == (pytest.approx(0.25), 25)
    names = {fp8.run_id: "fp8", reference.run_id: "reference"}
    assert verdict(alignment, names, 0.02).endswith(
        "; fp8_rowwise (emulated) against fp32, not the case's precision, bf16:"
        " the loss differs by 8.3e-03 nats in the mean of all steps, most at step 25"
    )
    assert align(read(result(example, curve())), reference).precisions is None


def test_no_curve_and_no_common_step_are_said(example):
    whole = read(result(example, curve()))
    with pytest.raises(UserError, match="loss_curve: expected the loss of each step, found none"):
        align(read(result(example, {})), whole)
    with pytest.raises(UserError, match="no step in common"):
        align(read(result(example, {99: 1.0})), whole)


def test_the_command_prints_a_table_curves_and_a_verdict(example, tmp_path, ran, saved):
    one = saved(tmp_path / "one.json", result(example, curve(1e-5), run_id="one"))
    other = saved(tmp_path / "other.json", result(example, curve(), run_id="other"))
    out = ran(0, "align", one, other).out
    assert "other (reference)" in out
    assert "loss, nats per token, by step" in out
    assert "log10 of difference from the reference" in out
    assert "one: aligned: mean relative error 0.0010 % from step 21 on (limit 2 %)" in out
    assert "\x1b" not in out
    assert "NOT aligned" in ran(1, "align", one, other, "--no-plot", "--step-limit", "1e-9").out
    assert "cannot tell: both are one and the same run; mean" in ran(1, "align", one, one, "--no-plot").out


def test_a_run_that_failed_before_its_first_loss_keeps_no_other_from_being_aligned(example, tmp_path, ran, saved):
    good = saved(tmp_path / "good.json", result(example, curve(), run_id="good"))
    failed = saved(tmp_path / "failed.json", result(example, {}, run_id="bad", status="failed"))
    other = saved(tmp_path / "other.json", result(example, curve(), run_id="other"))
    shown = ran(1, "align", failed, good, other, "--no-plot")
    assert "good: aligned" in shown.out
    assert shown.err == "llmperf: warning: not aligned: bad is failed and has no losses\n"


def test_a_short_run_is_offered_the_first_step(example, tmp_path, ran, saved):
    paths = [saved(tmp_path / f"{name}.json", result(example, curve(steps=20), run_id=name)) for name in ("one", "two")]
    shown = ran(1, "align", *paths, "--no-plot").out
    assert "cannot tell: no step from 21 on (--from-step 1 counts all they have)" in shown
    ran(0, "align", *paths, "--no-plot", "--from-step", "1")


def test_json_and_bad_input(example, tmp_path, ran, saved):
    one, other = (saved(tmp_path / f"{name}.json", result(example, curve())) for name in ("one", "other"))
    assert json.loads(ran(0, "align", one, other, "--json").out)[0]["passed"] is True
    assert "expected one run or more and the reference" in ran(2, "align", one).err
    ran(2, "align", one, tmp_path / "none.json")


@pytest.mark.parametrize("option", ["--mean-limit", "--step-limit"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_a_limit_is_a_finite_number(example, tmp_path, ran, option, value, saved):
    one, other = (saved(tmp_path / f"{name}.json", result(example, curve(0.5))) for name in ("one", "other"))
    assert option in ran(2, "align", one, other, option, value).err


def test_a_drawing_hides_no_curve():
    text = drawn("loss", {"flat": [(1, 1.0), (10, 1.0)], "rising": [(1, 0.5), (10, 2.0)]}, colour=False)
    assert "* flat   o rising" in text
    assert text.count("o") >= 3
    assert len(set(marks(8))) == 8
    assert len(marks(19)) == 19

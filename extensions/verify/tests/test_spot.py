"""The spot check passes what a plan's model, weights and data give, and fails what was trained otherwise."""

import time
from dataclasses import replace

import numpy as np
import pytest
from llmperf import library
from llmperf.accounting.parameters import count_parameters
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.tokens.draws import position
from llmperf.tokens.sources import open_samples
from llmperf.types import Plan, Result
from llmperf_verify.first_losses import SequencesRecord
from llmperf_verify.reference.decoder import first_losses
from llmperf_verify.reference.weights import DrawnWeights
from llmperf_verify.spot import BOUNDS, choose, spot_check

ALL = 4
"""Sequences of step 1."""


def changed(run, *, model=None, data=None, framework=None, **contract):
    """A run folder with another plan, and a result to match."""
    plan = json_files.load(run / filenames.PLAN, Plan)
    spec = plan.spec
    model = replace(spec.model, **(model or {})) if isinstance(model, dict | None) else model
    contract = replace(spec.contract, **contract)
    spec = replace(
        spec, model=model, contract=contract, framework=framework or {}, data=replace(spec.data, **(data or {}))
    )
    plan = replace(plan, spec=spec, flops=replace(plan.flops, parameters=count_parameters(model).total))
    json_files.save(run / filenames.PLAN, plan)
    result = json_files.load(run / filenames.RESULT, Result)
    return plan, replace(result, model=model, contract=contract)


def step_1(plan, rank):
    """The sequences of a data-parallel rank."""
    samples, batch = open_samples(plan.spec, plan.batch), plan.batch
    return np.stack([samples.at(position(batch, 0, 0, rank, row)) for row in range(batch.micro_batch)])


def record(run, losses):
    for rank, values in enumerate(losses):
        path, line = filenames.records_path(run, rank), SequencesRecord(rank=rank, losses=tuple(map(float, values)))
        others = [other for other in path.read_bytes().splitlines(keepends=True) if b'"sequences"' not in other]
        path.write_bytes(json_files.encode(line) + b"\n" + b"".join(others))


def honest(plan):
    contract, model = plan.spec.contract, plan.spec.model
    return [first_losses(model, contract, step_1(plan, rank)) for rank in range(2)]


@pytest.fixture
def mini(run_folder):
    """A run of a small model in fp32 on two ranks, whose records have no losses of sequences yet."""
    plan, result = changed(run_folder, model=library().model("llama3_tiny"), seq_len=64)
    return run_folder, plan, result


def said(check):
    return check.outcome, check.message


def test_an_honest_run_passes_and_its_draw_can_be_repeated(mini):
    run, plan, result = mini
    record(run, honest(plan))
    check = spot_check(run, result, 3)
    assert (check.level, check.outcome) == ("spot-checked", "passed")
    assert check.message.startswith("the losses of 3 sequences of step 1 computed again: largest difference ")
    assert check.figures["ranks"] == 2
    assert check.figures["largest_difference"] < 1e-6
    assert check.figures["bound"] < 0.01 * check.figures["spread"]
    assert spot_check(run, result, 3, seed=check.figures["seed"]).figures == check.figures
    outcome, message = said(spot_check(run, result, 999))
    assert (outcome, message.endswith("; asked for 999, step 1 has 4")) == ("passed", True)
    other = spot_check(run, replace(result, model=replace(result.model, layers=8)))
    assert said(other) == ("failed", "plan.json: its model or contract is not that of result.json")


def test_the_command_repeats_a_draw(mini, capsys):
    run, plan, _ = mini
    record(run, honest(plan))
    json_files.save(run / filenames.RESULT, build_result(run))
    for options in (["--spot", "3"], ["--spot", "4", "--spot-seed", "20260115"]):
        call(["validate", str(run), *options])
        assert f"LP670 note the losses of {options[1]} sequences of step 1 computed again" in capsys.readouterr().out
    record(run, by_formula(plan))
    json_files.save(run / filenames.RESULT, build_result(run))
    assert call(["validate", str(run), "--spot", "2"]) == 1
    assert "LP670 error 2 of 2 sequences of step 1 have other losses than recorded" in capsys.readouterr().out


class WithoutAttention(DrawnWeights):
    def rows(self, name, shape, start, stop):
        return super().rows(name, shape, start, stop) * (not name.endswith("o_proj.weight"))


def without_attention(plan):
    weights = WithoutAttention(plan.spec.contract.seed, plan.spec.model.initializer_std, np.float32)
    contract, model = plan.spec.contract, plan.spec.model
    return [first_losses(model, contract, step_1(plan, rank), weights=weights) for rank in range(2)]


def of_spec(**changes):
    """Trained with another spec than the plan says, on the data of the plan."""

    def losses(plan):
        model = replace(plan.spec.model, **changes.get("model", {}))
        contract = replace(plan.spec.contract, **changes.get("contract", {}))
        return [first_losses(model, contract, step_1(plan, rank)) for rank in range(2)]

    return losses


def on_other_data(plan):
    other = replace(plan, spec=replace(plan.spec, contract=replace(plan.spec.contract, seed=99)))
    return [first_losses(plan.spec.model, plan.spec.contract, step_1(other, rank)) for rank in range(2)]


def halved_sequences(plan):
    halves = [step_1(plan, rank)[:, : plan.spec.contract.seq_len // 2 + 1] for rank in range(2)]
    return [first_losses(plan.spec.model, plan.spec.contract, rows) for rows in halves]


def second_rank_dropped(plan):
    return [honest(plan)[0]] * 2


def by_formula(plan):
    return [[np.log(plan.spec.model.vocab_size) + 0.01 * row for row in range(2)]] * 2


def means_of_the_step(plan):
    return [[np.mean(losses)] * 2 for losses in honest(plan)]


CHEATS = {
    "another model": of_spec(model={"kv_heads": 4, "rope_theta": 1e4}),
    "fewer layers": of_spec(model={"layers": 2}),
    "narrower feed-forward layers": of_spec(model={"intermediate_size": 128}),
    "other weights": of_spec(model={"initializer_std": 0.021}),
    "another seed": of_spec(contract={"seed": 1}),
    "other data": on_other_data,
    "halved sequences": halved_sequences,
    "no attention": without_attention,
    "one of two ranks": second_rank_dropped,
    "invented losses": by_formula,
    "the mean for each": means_of_the_step,
}


@pytest.mark.parametrize("name", CHEATS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_was_trained_otherwise_fails(name, precision, mini):
    run, _, _ = mini
    plan, result = changed(run, precision=precision)
    record(run, CHEATS[name](plan))
    check = spot_check(run, result, ALL)
    assert check.outcome == "failed", check.message
    assert " of 4 sequences of step 1 have other losses than recorded: sequence " in check.message


@pytest.mark.parametrize("precision", BOUNDS)
def test_rounding_of_a_recipe_passes_and_a_shift_of_all_losses_fails(precision, mini):
    run, _, _ = mini
    plan, result = changed(run, precision=precision)
    bound = BOUNDS[precision][False]
    losses, signs = honest(plan), ((0.9, -0.9), (-0.7, 0.7))
    record(run, [rank + bound * np.array(sign) for rank, sign in zip(losses, signs, strict=True)])
    expected = "impossible" if precision.startswith("fp8") else "passed"
    assert spot_check(run, result, ALL).outcome == expected
    record(run, [rank + 0.8 * bound for rank in losses])
    check = spot_check(run, result, ALL)
    assert check.outcome == "failed"
    assert "in the mean" in check.message


@pytest.mark.parametrize("sequences", [1, ALL])
def test_a_bound_that_is_not_below_the_spread_proves_nothing(sequences, mini):
    run, _, _ = mini
    plan, result = changed(run, precision="bf16", model={"initializer_std": 0.001})
    record(run, [[np.log(plan.spec.model.vocab_size)] * 2] * 2)
    check = spot_check(run, result, sequences)
    assert check.outcome == "impossible"
    assert "agree, but a guess would, too: the bound 2.8e-03 is not below the spread between" in check.message
    assert check.message.endswith(f"ask for a run in fp32 (seed {check.figures['seed']})")


def test_the_spread_is_that_between_sequences(mini):
    run, plan, result = mini
    losses = honest(plan)
    record(run, losses)
    spread = spot_check(run, result, 1).figures["spread"]
    assert 0.5 < spread / np.std(losses, ddof=1) < 2


def test_ranks_without_their_losses_fail(mini):
    run, plan, result = mini
    assert "no rank recorded the losses" in spot_check(run, result).message
    assert spot_check(run, result).outcome == "impossible"
    losses = honest(plan)
    record(run, losses[:1])
    told = "expected losses of step 1 of 2 data-parallel ranks, found those of 1"
    assert said(spot_check(run, result)) == ("failed", told)
    record(run, [losses[0], losses[1][:1]])
    told = "rank-00001.jsonl: expected the losses of 2 sequences of step 1, found 1"
    assert said(spot_check(run, result)) == ("failed", told)


def test_missing_records_are_told_from_frameworks_that_report_no_losses(mini):
    run, plan, result = mini
    assert "llmperf-verify was not installed where it ran" in spot_check(run, result).message
    json_files.save(run / filenames.PLAN, replace(plan, recorders=("verify",)))
    assert f"{plan.spec.tuning.framework} did not report them" in spot_check(run, result).message
    filenames.records_path(run, 1).write_bytes(b"")
    assert "rank-00001.jsonl has no steps" in spot_check(run, result).message
    filenames.records_path(run, 1).unlink()
    assert "expected the records of 2 ranks, found 1 files" in spot_check(run, result).message


IMPOSSIBLE = {
    "positions": ({"model": {"position_encoding": "learned", "rope_scaling": None}}, "expected one of rope, alibi"),
    "multi-token layers": ({"model": {"multi_token_layers": 1}}, "model.multi_token_layers: expected 0"),
    "contradiction": ({"model": {"kv_heads": 3}}, "plan.json: kv_heads: expected a divisor of"),
    "data": (
        {"dataset": "corpus", "data": {"path": "/etc/passwd"}},
        "name it in your own llmperf.toml, [data.corpus] path",
    ),
    "weights": ({"model": {"initializer_std": 1e-30}}, "plan.json: initializer_std: expected 0.001 to 1, found 1e-30"),
    "layers": ({"model": {"layers": 10**9}}, " hours"),
    "narrow layers": (
        {"model": {"layers": 10**11, "hidden_size": 2, "intermediate_size": 1, "attention_heads": 1, "kv_heads": 1}},
        " hours",
    ),
    "parameters": ({"model": {"intermediate_size": 10**15}}, " GiB of memory"),
    "vocabulary": ({"model": {"vocab_size": 10**15}}, "vocab_size: expected at most"),
    "sequence": ({"seq_len": 10**12}, " GiB of memory"),
    "heads": ({"model": {"attention_heads": 10**12, "kv_heads": 1, "head_width": 2}}, " GiB of memory"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_be_checked_here_is_one_line_at_once(name, mini):
    run, _, _ = mini
    changes, expected = IMPOSSIBLE[name]
    _, result = changed(run, **changes)
    record(run, [[5.0, 5.0]] * 2)
    begin = time.monotonic()
    check = spot_check(run, result)
    assert check.outcome == "impossible"
    assert expected in check.message
    assert "\n" not in check.message
    assert time.monotonic() - begin < 30


def test_files_are_the_validators_own_and_checked_by_their_fingerprint(mini, tmp_path, monkeypatch):
    run, _, _ = mini
    folder = tmp_path / "config" / "llmperf"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    np.save(folder / "mine.npy", np.random.default_rng(0).integers(0, 256, 5000).astype(np.uint16))
    (folder / "llmperf.toml").write_text('[data.corpus]\npath = "mine.npy"\n')
    plan, result = changed(run, dataset="corpus", data={"path": str(folder / "mine.npy")})
    record(run, honest(plan))
    assert spot_check(run, result).outcome == "passed"
    check = spot_check(run, replace(result, data_fingerprint="0" * 64))
    assert check.outcome == "impossible"
    assert "'corpus' has other tokens here than in the run: expected the fingerprint 000" in check.message


def test_sequences_are_spread_over_the_ranks(mini):
    _, plan, _ = mini
    batch = replace(plan.batch, data_parallel=4, gradient_accumulation=3, micro_batch=2, global_batch=24)
    plan = replace(plan, batch=batch)
    for seed in range(20):
        chosen = choose(plan, 6, seed)
        assert chosen == choose(plan, 6, seed)
        assert len(set(chosen)) == 6
        assert sorted(len([place for place in chosen if place.rank == rank]) for rank in range(4)) == [1, 1, 2, 2]
    assert len({(place.rank, place.index) for place in choose(plan, 1000, 0)}) == 24


def test_long_checks_show_what_they_will_take(mini, monkeypatch):
    from llmperf_verify import spot

    run, plan, result = mini
    record(run, honest(plan))
    monkeypatch.setattr(spot, "SHOWN_SECONDS", 0.0)
    lines = []
    spot_check(run, result, 1, show=lines.append)
    assert lines[0].startswith("spot check of llama3_tiny: 1 sequences, ")
    assert lines[1].startswith("layer 1 of 4, about ")

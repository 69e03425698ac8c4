"""Plain PyTorch trains, and the same on one rank or two."""

import pytest

pytestmark = pytest.mark.slow


def task(model=None, contract=None, **tuning):
    return {"framework": "pytorch", "model": model or {}, "contract": contract or {}, "tuning": tuning}


def same(found, expected):
    assert found["losses"] == pytest.approx(expected["losses"], abs=1e-4)


def test_one_process_and_two_ranks_give_the_same_losses(program, train):
    tied = {"tied_embeddings": True}
    alibi = {**program.BAICHUAN, "position_encoding": "alibi"}
    wholes = [task(micro_batch=4), task(tied, micro_batch=4), task(alibi, micro_batch=4)]
    parts = [
        task(micro_batch=1),
        task(micro_batch=2),
        task(micro_batch=1, gradient_checkpointing=True),
        task(tied, micro_batch=2),
        task(alibi, micro_batch=1, gradient_checkpointing=True),
        task(contract={"precision": "bf16"}, micro_batch=1),
        task(alibi, contract={"precision": "bf16"}, micro_batch=2),
    ]
    whole, whole_tied, whole_alibi = train(wholes, ranks=1)
    *fp32, parts_tied, parts_alibi, bf16, bf16_alibi = train(parts, ranks=2)
    for found in fp32:
        same(found, whole)
        assert found["norms"] == pytest.approx(whole["norms"], abs=1e-4)
    same(parts_tied, whole_tied)
    same(parts_alibi, whole_alibi)
    assert bf16["losses"] == pytest.approx(whole["losses"], abs=0.02)
    assert bf16_alibi["losses"] == pytest.approx(whole_alibi["losses"], abs=0.05)
    assert bf16["losses"] != pytest.approx(whole["losses"], abs=1e-7)
    assert whole["tokens"] == 2 * fp32[0]["tokens"] == 6 * 4 * 64


def test_models_learn(program, train):
    long = {"steps": 60, "optimizer": {"lr": 1e-2, "clip_norm": None}, "global_batch": 8}
    families = [{}, program.BAICHUAN, {**program.BAICHUAN, "position_encoding": "alibi"}]
    small = {"vocab_size": 64}
    tasks = [task({**family, **small}, long, micro_batch=8) for family in families]
    for found in train(tasks, ranks=1):
        assert found["losses"][0] > 4.0
        assert 1.3 < found["losses"][-1] < 2.5
        assert found["norms"] == [None] * 60

"""The losses of the sequences of step 1: recorded beside the training loss, which they do not change."""

import pytest
import torch
from llmperf_pytorch.kernels.cross_entropy import linear_cross_entropy
from llmperf_torchkit.losses import SequenceLosses, mean_cross_entropy, recorded_in

pytestmark = pytest.mark.slow


def recorded(compute):
    """The loss and the losses of sequences."""
    losses = SequenceLosses()
    with recorded_in(losses):
        loss = compute()
    losses.copy()
    return loss, losses.values()


def trained(program, monkeypatch, warmup_steps, **tuning):
    """Figures of a few steps; without a warm-up step no losses of sequences are computed."""
    monkeypatch.setenv("RANK", "0")
    contract = {"steps": 3, "warmup_steps": warmup_steps, "seq_len": 16, "precision": tuning.pop("precision", "fp32")}
    task = {"framework": "pytorch", "contract": contract, "tuning": {"micro_batch": 2, **tuning}}
    return program.train(task, 1)


@pytest.mark.parametrize(("precision", "fused_ops"), [("fp32", []), ("bf16", ["cross_entropy"])])
def test_training_is_the_same_to_the_last_bit(program, monkeypatch, fused_ops, precision):
    settings = {"fused_ops": fused_ops, "precision": precision}
    without = trained(program, monkeypatch, 0, **settings)
    with_losses = trained(program, monkeypatch, 1, **settings)
    assert without["sequences"] == []
    assert len(with_losses["sequences"]) == 4
    assert (with_losses["losses"], with_losses["norms"]) == (without["losses"], without["norms"])


def test_padding_is_left_out():
    torch.manual_seed(0)
    states, weight = torch.randn(3, 8, 4), torch.randn(16, 4)
    labels = torch.randint(16, (3, 8))
    labels[0, 5:] = labels[2, 1:] = -100
    rows = zip(states, labels, strict=True)
    expected = [float(torch.nn.functional.cross_entropy(row @ weight.T, wanted)) for row, wanted in rows]
    mean, losses = recorded(lambda: mean_cross_entropy(states @ weight.T, labels))
    fused_mean, fused_losses = recorded(lambda: linear_cross_entropy(states, weight, labels))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert fused_losses == pytest.approx(expected, rel=1e-6)
    weighted = sum(loss * learnt for loss, learnt in zip(losses, (5, 8, 1), strict=True)) / 14
    assert float(mean) == pytest.approx(weighted, rel=1e-6)
    assert float(fused_mean) == pytest.approx(weighted, rel=1e-6)


def test_several_micro_batches_follow_one_another():
    logits, labels = torch.randn(4, 6, 16), torch.randint(16, (4, 6))
    _, whole = recorded(lambda: mean_cross_entropy(logits, labels))
    _, parts = recorded(lambda: [mean_cross_entropy(logits[part], labels[part]) for part in (slice(0, 2), slice(2, 4))])
    assert parts == whole


def test_nothing_is_recorded_outside_the_first_step():
    losses = SequenceLosses()
    with recorded_in(losses):
        pass
    mean_cross_entropy(torch.randn(1, 2, 4), torch.zeros(1, 2, dtype=torch.int64))
    losses.copy()
    assert losses.values() is None

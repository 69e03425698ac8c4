"""Callbacks meter real trainings: every optimiser step with its tokens, accumulation included."""

import json
from contextlib import nullcontext

import pytest

STEPS, BATCH, LENGTH = 20, 2, 16

pytestmark = pytest.mark.slow


@pytest.fixture
def model():
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Sequential):
        def forward(self, input_ids, labels):
            logits = super().forward(input_ids)
            return {"loss": torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}

    return Model(torch.nn.Embedding(64, 8), torch.nn.Linear(8, 64))


@pytest.fixture
def data():
    rows = pytest.importorskip("torch").randint(0, 64, (2 * BATCH * STEPS, LENGTH))
    return [{"input_ids": row, "labels": row} for row in rows]


def only_document(folder):
    (path,) = folder.glob("*/watched.json")
    return json.loads(path.read_text())


def test_trainer_is_metered(tmp_path, model, data):
    transformers = pytest.importorskip("transformers")
    from llmperf_watch import trainer_callback

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "hf"), per_device_train_batch_size=BATCH, gradient_accumulation_steps=2,
        max_steps=STEPS, logging_steps=5, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    callback = trainer_callback(sequence_length=LENGTH, out=tmp_path / "runs")
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    document = only_document(tmp_path / "runs")
    assert document["steps"]["step"] == list(range(1, STEPS + 1))
    assert set(document["steps"]["tokens"]) == {BATCH * 2 * LENGTH}
    printed = {entry["step"]: entry["loss"] for entry in trainer.state.log_history if "loss" in entry}
    assert {step: loss for step, loss in enumerate(document["steps"]["loss"], 1) if loss} == pytest.approx(printed)
    assert document["facts"]["devices"]["value"] == 1


@pytest.mark.parametrize("fails", [False, True])
def test_lightning_is_metered(tmp_path, model, data, fails):
    torch, lightning = pytest.importorskip("torch"), pytest.importorskip("lightning.pytorch")
    from llmperf_watch import lightning_callback

    losses = []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, index):
            if fails and index == STEPS:
                raise OSError("no more data")
            losses.append(self.model(**batch)["loss"])
            return losses[-1]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    callback = lightning_callback(BATCH * 2 * LENGTH, out=tmp_path)
    trainer = lightning.Trainer(max_steps=STEPS, accumulate_grad_batches=2, accelerator="cpu", devices=1,
                                logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                callbacks=[callback])  # fmt: skip
    batches = torch.utils.data.DataLoader(data, BATCH)
    with pytest.raises(OSError, match="no more data") if fails else nullcontext():
        trainer.fit(Module(), batches)
    document = only_document(tmp_path)
    steps = document["steps"]
    assert steps["step"] == list(range(1, STEPS // (1 + fails) + 1))
    assert set(steps["tokens"]) == {BATCH * 2 * LENGTH}
    if fails:
        assert document["notes"][-1] == "the loop ended with OSError"
    else:
        assert steps["loss"] == pytest.approx([float(loss) for loss in losses[1::2]])

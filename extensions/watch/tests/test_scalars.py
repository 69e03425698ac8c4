"""Scalars that other programs logged: TensorBoard, Weights & Biases, and tables of them."""

import json

import pytest

ROWS = [(step, 1e9 + step * 0.05, 9 - step / 100) for step in range(10, 610, 10)]


def write(kind, folder):
    """Write the rows as a program does."""
    rows = [{"_step": number, "_timestamp": at, "train/global_step": step, "train/loss": loss, "note": "x"}
            for number, (step, at, loss) in enumerate(ROWS)]  # fmt: skip
    if kind == "wandb-history.jsonl":
        rows.insert(3, {"_step": 99, "_timestamp": 1e9, "eval/loss": 1.0})
        text = "".join(json.dumps(row) + "\n" for row in rows)
    elif kind == "trainer_state.json":
        history = [{"loss": row["train/loss"], "step": row["train/global_step"]} for row in rows]
        history.append({"step": 605, "train_loss": 9, "train_runtime": 30.25, "train_steps_per_second": 20.0})
        text = json.dumps({"log_history": history})
    elif kind == "run.csv":
        text = "Step,_timestamp,run-7 - train/loss\n" + "".join(f"{step},{at},{loss}\n" for step, at, loss in ROWS)
    else:
        pytest.importorskip("tensorboard")
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        writer = EventFileWriter(str(folder))
        for step, at, loss in ROWS:
            for tag, value in (("train/loss", loss), ("train/lr", 1e-4)):
                summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
                writer.add_event(Event(wall_time=at, step=step, summary=summary))
        writer.close()
        return folder
    (folder / kind).write_text(text)
    return folder / kind


@pytest.mark.parametrize("kind", ["events", "wandb-history.jsonl", "run.csv", "trainer_state.json"])
def test_scalars_become_steps_with_their_times(tmp_path, ran, kind):
    (tmp_path / "run").mkdir()
    words = ["--out", str(tmp_path), "--json", "--force", "--sequence-length=64", "--global-batch=10", "--devices=1"]
    (made,) = json.loads(ran(0, "import", write(kind, tmp_path / "run"), *words).out)
    figures = made["figures"]
    assert (made["written_to"], made["profile"]) == (str(tmp_path / "run" / "watched.json"), "scalars")
    whole_run, rate = kind == "trainer_state.json", figures["tokens_per_second"]
    assert (figures["reported"] - whole_run, figures["last_loss"]) == (60, 3.0)
    assert (figures["first_loss"], rate["mean"]) == (pytest.approx(8.9), pytest.approx(640 / 0.05))
    assert ("over the whole run, start-up included" in rate["source"]) == whole_run
    assert rate["p95"] - rate["p5"] == pytest.approx(2 * 640 / 0.05 * 0.005 / 30.25 if whole_run else 0, abs=0.1)
    ran(0, "validate", made["written_to"])
    assert "12,800.0" in ran(0, "summary", tmp_path).out


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("events.out.tfevents.1.a", b"\xff" * 40, "expected events of at most 16777216 bytes"),
        ("events.out.tfevents.1.a", b"\x05" + b"\0" * 11 + b"\xff" * 9, "expected events of TensorBoard"),
        ("wandb-history.jsonl", b"[1]\n", "wandb-history.jsonl: record 1"),
        ("wandb-summary.json", b'{"loss": 1}', "expected records with a step (train/global_step"),
        ("trainer_state.json", b'{"log_history": 3}', "trainer_state.json: "),
        ("two.csv", b"Step,a - train/loss,b - train/loss\n1,2,3\n", "expected the columns of one run"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, ran, name, data, message):
    (tmp_path / name).write_bytes(data)
    assert message in ran(2, "import", tmp_path / name, "--out", tmp_path / "out").err

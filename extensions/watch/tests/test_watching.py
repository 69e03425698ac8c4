"""`llmperf watch`: any command is started, its output passes through, and the document says what it shows."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llmperf import read_toml
from llmperf.cli.main import call
from llmperf_watch import meter
from llmperf_watch.figures import WARMUP_LEAST, figures_of
from llmperf_watch.profiles import read_profile
from llmperf_watch.types import Steps
from llmperf_watch.watching import Lines, without_secrets

TRAINER = """
import sys, time
print("Trainer is initialized with local batch size 2, global batch size 4, gradient accumulation steps 1,"
      " sequence length 256, total steps 12 (warmup 0)")
for step in range(1, 13):
    time.sleep(0.02)
    print(f"step: {step:2}  loss: {9 - step / 10:8.5f}  memory:  0.95GiB(1.19%)  tps: 1,149  tflops: 0.03  mfu: 0.01%")
    print("to standard error", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def watched(tmp_path, capfdbinary):
    """Watch a program; its exit code and its document."""

    def run(program, *options):
        code = call(["watch", "-o", str(tmp_path / "runs"), *options, "--", sys.executable, "-c", program])
        (path,) = tmp_path.glob("runs/*/watched.json")
        return code, json.loads(path.read_text()), path

    return run


def test_a_program_is_watched_and_its_exit_status_is_kept(watched, capfdbinary):
    code, document, path = watched(TRAINER, "--devices", "2")
    assert code == 3 == document["exit_status"]
    assert (document["evidence"], document["clock"], document["profile"]) == ("watched", "llmperf", "torchtitan")
    figures, steps = document["figures"], document["steps"]
    assert steps["step"] == list(range(1, 13))
    assert 0.02 <= steps["at"][5] - steps["at"][4] < 1
    assert figures["step_seconds"]["count"] == 12 - WARMUP_LEAST == figures["reported"] - figures["left_out"]
    assert figures["tokens_per_second"]["median"] == pytest.approx(1024 / figures["step_seconds"]["median"], rel=0.2)
    each = figures["tokens_per_second_per_device"]
    assert each["median"] == pytest.approx(figures["tokens_per_second"]["median"] / 2)
    assert each["source"] == (
        "4 sequences (printed by the program) of 256 tokens (printed by the program), by llmperf's clock, / 2 devices"
    )
    assert document["facts"]["devices"] == {"value": 2, "source": "--devices"}
    printed = figures["printed"]["tokens_per_second_per_device"]["median"]
    assert (printed, figures["mfu"], figures["no_mfu"]) == (1149, [], "not stated: model, precision")
    out, err = capfdbinary.readouterr()
    assert out.count(b"step: ") == 12
    assert err.count(b"to standard error") == 12
    assert (path.parent / "output.log").read_bytes().count(b"\n") == 25
    assert call(["validate", str(path)]) == call(["report", str(path.parent.parent)]) == 0
    assert b"self-reported tokens, llmperf's clock" in capfdbinary.readouterr().out
    assert call(["report", str(path), "--format", "markdown", "--lang", "zh"]) == 0
    figures["tokens_per_second_per_device"]["median"] *= 2
    path.write_text(json.dumps(document))
    assert call(["validate", str(path)]) == 1
    assert b"/figures/tokens_per_second_per_device/median: WATCH1 error" in capfdbinary.readouterr().out


def test_what_cannot_be_is_an_error_and_mfu_needs_four_facts(watched, capfdbinary):
    facts = ("--model", "llama3_1_8b", "--precision", "bf16", "--accelerator", "A100-SXM4-80GB", "--devices", "2")
    _, document, path = watched(TRAINER.replace("batch size 4", "batch size 64"), *facts)
    headline = next(mfu for mfu in document["figures"]["mfu"] if mfu["headline"])
    each = document["figures"]["tokens_per_second_per_device"]["mean"]
    assert headline["value"] == pytest.approx(each * 6 * 8e9 / 312e12)
    capfdbinary.readouterr()
    code = call(["validate", str(path)])
    assert (code == 1) == (headline["value"] > 1)
    assert b"WATCH4 warning expected about " in capfdbinary.readouterr().out


def test_a_program_without_a_profile_gives_no_figure(watched):
    code, document, _ = watched("print('hello')")
    assert (code, document["profile"], document["figures"]["step_seconds"]) == (0, None, None)
    assert "no log profile fits the output" in document["notes"][-1]


def test_bad_input_is_one_line(tmp_path, ran):
    for words, message in {
        "-- /no/such/program": "watch: cannot start /no/such/program: No such file or directory",
        "--profile megatrn -- true": "did you mean 'megatron'?",
        "--model my.toml -- true": "expected a name of `llmperf models`, by which figures are checked, found 'my.toml'",
        "--accelerator A100-SXM -- true": "--accelerator: unknown device model 'A100-SXM'; expected one of: NVIDIA A1",
        "--model nosuch -- true": "; `llmperf models` lists those that exist",
        "--model llama3_1_8 -- true": "--model: unknown model 'llama3_1_8'; did you mean 'llama3_1_8b'?",
    }.items():
        assert message in ran(2, "watch", "-o", tmp_path, *words.split()).err


def test_a_signal_ends_the_program_and_what_it_printed_is_kept(tmp_path):
    program = TRAINER.replace("0.02", "0.02 if step < 6 else 600")
    words = [sys.executable, "-m", "llmperf", "watch", "-o", str(tmp_path), "--", sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            if b"step:  5" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM
    (path,) = tmp_path.glob("*/watched.json")
    assert json.loads(path.read_text())["steps"]["step"] == [1, 2, 3, 4, 5]


def test_lines_that_arrive_in_one_block_lose_no_step():
    steps = Steps(step=tuple(range(1, 101)), at=tuple(-(-step // 4) * 0.4 for step in range(1, 101)))
    assert figures_of(steps, {}, "llmperf").step_seconds.mean == pytest.approx(0.1)


def test_secrets_of_the_command_are_withheld():
    words = "train --hf-token abc --api_key=def --max-tokens 7 --tokens=8 WANDB_KEY=x --lr 1"
    hidden = "train --hf-token [withheld] --api_key=[withheld] --max-tokens 7 --tokens=8 WANDB_KEY=[withheld] --lr 1"
    assert without_secrets(words.split()) == tuple(hidden.split())


PROPOSED = read_toml(Path(__file__).with_name("profiles.toml"))["proposed"]
STAMPED = "2026-11-28 10:00:{:06.3f} step: {}  loss: {:.3f}  memory: 1.00GiB  tps: 640  tflops: 1.00  mfu: 1.00%\n"
PADDLE = (
    "loss: 3, global_step: {}, interval_runtime: {}, interval_samples_per_second: 9, interval_steps_per_second: 12\n"
)


def test_logs_are_imported_by_the_times_that_they_print(tmp_path, ran, capsys):
    log = tmp_path / "train.log"
    log.write_text("".join(STAMPED.format(number * 0.5, number, 9 - number / 100) for number in range(1, 60)))
    words = ["--devices", "2", "--sequence-length", "64", "--global-batch", "10"]
    assert "token/p/s: 640" in ran(0, "import", log, "--out", tmp_path / "a", *words).out
    document = json.loads((tmp_path / "a" / "train" / "watched.json").read_text())
    assert (document["evidence"], document["clock"], document["profile"]) == ("log", "program", "torchtitan")
    assert document["figures"]["step_seconds"]["mean"] == pytest.approx(0.5)
    assert call(["validate", str(tmp_path / "a")]) == 0
    assert "--force replaces it" in ran(2, "import", log, "--out", tmp_path / "a").err
    log.write_text("".join(PADDLE.format(step, 0.8 * step) for step in range(10, 60, 10)))
    assert call(["import", str(log), "--out", str(tmp_path / "p"), *words]) == 0
    assert "expected about 120 (10 sequences (--global-batch), step time" in ran(0, "validate", tmp_path / "p").out
    (tmp_path / "own.toml").write_text("[[line]]\nstep = 'at {}'\nloss = 'loss {}'\n")
    whole = "2026-03-01 12:{:02}:{:02} at {} loss 2.0\n"
    log.write_text("".join(whole.format(*divmod(int(step * 0.7), 60), step) for step in range(1, 60)))
    words = ["import", str(log), "--out", str(tmp_path / "c")]
    assert call(words) == call([*words, "--profile", "megatron"]) == call(["import", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert all(text in err for text in ("`llmperf watch --propose", "no step is read by megatron", "name logs, and"))
    assert call([*words, "--profile", str(tmp_path / "own.toml")]) == 0
    assert "note: times in whole seconds are not read: the steps take less than 100 s" in capsys.readouterr().out
    log.write_text("".join(whole.format(*divmod(int(step * 0.7), 60), step) for step in range(1, 401)))
    assert call([*words, "--profile", str(tmp_path / "own.toml"), "--force", "--device", "H800"]) == 0
    timed = "by the times that the program printed with its lines, in whole seconds (+-0.4%)"
    assert f"step time: 0.7008 s; 0.6981 to 0.7036; {timed}" in capsys.readouterr().out
    facts = json.loads((tmp_path / "c" / "train" / "watched.json").read_text())["facts"]
    assert facts["device_model"] == {"value": "H800", "source": "--device"}


def test_the_last_line_of_hf_trainer_has_the_speed_of_the_whole_run(tmp_path, capsys):
    losses = "{'loss': '8.334', 'learning_rate': '0.001', 'epoch': '0.05'}\n" * 5
    ended = "{'train_runtime': '83.41', 'train_samples_per_second': '95.91', 'train_steps_per_second': '11.99'}\n"
    (tmp_path / "hf.log").write_text(losses + ended)
    for options, expected in {
        "": "step time: 0.0834 s",
        "--sequence-length 64": "tokens/s: 6,138.2; 6,137.9 to ",
    }.items():
        words = ["import", str(tmp_path / "hf.log"), "--out", str(tmp_path), "--force", *options.split()]
        assert call(words) == call(["validate", str(tmp_path / "hf")]) == 0
        found = capsys.readouterr().out
        assert (expected in found, "tokens/s:" in found) == (True, bool(options))
        assert "printed by the program, over the whole run, start-up included" in found


def test_a_loop_is_metered_without_reading_its_losses(tmp_path, monkeypatch, capsys):
    class Loss:
        read = 0

        def detach(self):
            return self

        def __float__(self):
            Loss.read += 1
            return 2.5

    with meter(out=tmp_path, devices=2, sequence_length=64) as run:
        for _ in range(40):
            time.sleep(0.002)
            run.step(tokens=100, loss=Loss())
            assert Loss.read == 0
    document = json.loads(run.path.read_text())
    assert (document["evidence"], document["clock"], document["figures"]["last_loss"]) == ("metered", "llmperf", 2.5)
    rate = document["figures"]["tokens_per_second"]["mean"]
    assert 100 / 0.02 < rate < 100 / 0.002
    assert document["figures"]["tokens_per_second_per_device"]["mean"] == pytest.approx(rate / 2)
    assert call(["validate", str(run.path.parent)]) == 0
    monkeypatch.setenv("RANK", "1")
    with meter(out=tmp_path / "other") as run:
        run.step(tokens=1)
    assert (run.path, (tmp_path / "other").exists()) == (None, False)
    monkeypatch.delenv("RANK")
    with pytest.raises(KeyError), meter(out=tmp_path) as run:  # noqa: PT012
        run.step(tokens=1)
        raise KeyError
    assert "the loop ended with KeyError" in run.path.read_text()


@pytest.mark.parametrize(("form", "values"), PROPOSED.items())
def test_a_profile_is_proposed_and_what_is_not_sure_is_commented_out(tmp_path, capsys, form, values):
    log, own = tmp_path / "mine.log", tmp_path / "own.toml"
    log.write_text("loading\n" + "".join(form.format(number) + "\n" for number in range(1, 9)))
    assert call(["watch", "--propose", str(log)]) == 0
    own.write_text(capsys.readouterr().out)
    assert read_profile(own).values(form.format(7)) == pytest.approx({"step": 7, "loss": 2.7, **values})


def test_tokens_that_are_printed_now_and_then_are_those_of_every_step(tmp_path, ran):
    lines = []
    for step in range(1, 101):
        at = f"2026-11-28 10:{step // 60:02}:{step % 60:02}.000 "
        lines.append(f"{at}{step}%|x| {step}/100 [00:01<00:02, 1.00it/s]")
        if step % 10 == 0:
            said = {"loss": 2.0, "learning_rate": 1.0, "num_input_tokens_seen": step * 1000, "train_runtime": step}
            lines[-1] += str(said)
    (tmp_path / "a.log").write_text("\r".join(lines) + "\n")
    (made,) = json.loads(ran(0, "import", tmp_path / "a.log", "--out", tmp_path / "out", "--json").out)
    rates = made["figures"]["tokens_per_second"]
    assert (rates["median"], rates["mean"]) == (pytest.approx(1000), pytest.approx(1000))


def test_a_bar_comes_with_its_text_not_with_the_next_one():
    taken = []
    lines = Lines(lambda line, at: taken.append((line, at)))
    for at, data in ((1.0, b"\r1/3"), (2.0, b"\r2/3"), (3.0, b"\r3/"), (3.1, b"3"), (4.0, b"\ndone\n"), (5.0, b"")):
        lines.add(data, at, final=not data)
    assert taken == [("1/3", 1.0), ("2/3", 2.0), ("3/3", 3.1), ("done", 4.0)]


@pytest.mark.parametrize(("stall", "ramp", "expected"), [(0.0, 0, 87_381.3), (120.0, 0, 56_173.7), (0.0, 20, 87_381.3)],
                         ids=["steady", "with a pause", "a batch that grows"])  # fmt: skip
def test_a_log_of_megatron_has_the_tokens_of_its_window(tmp_path, monkeypatch, ran, stall, ramp, expected):
    """Steps of 6 s with 128 sequences of 4096 tokens; a pause of 120 s before step 25, or half the batch at first."""
    seconds, samples = 0.0, 0
    lines = ["  seq_length ...................................... 4096"]
    for step in range(1, 41):
        size = 64 if step <= ramp else 128
        seconds, samples = seconds + size * 6 / 128 + stall * (step == 25), samples + size
        at = f"2026-03-01 12:{int(seconds) // 60:02}:{seconds % 60:09.6f}"
        took = f"elapsed time per iteration (ms): {size * 6000 / 128:.1f}"
        lines.append(f" [{at}] iteration {step:8d}/      40 | consumed samples: {samples:12d} | {took}"
                     f" | global batch size: {size:5d} | lm loss: 8.0E+00 |")  # fmt: skip
    (tmp_path / "train.log").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    (document,) = json.loads(ran(0, "import", "train.log", "--json").out)
    assert document["figures"]["tokens_per_second"]["mean"] == pytest.approx(expected, rel=1e-4)
    assert ("the global batch changes from 64 to 128" in str(document["notes"])) == bool(ramp)

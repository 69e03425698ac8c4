"""The measured loop against a device that works behind the host's back."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf.measuring import loop
from llmperf.measuring.loop import MAX_STEPS_AHEAD, MeasuredLoop, NonfiniteLoss
from llmperf.runfolder import reader
from llmperf.runfolder.reader import Recorder, RecordFile
from llmperf.types import StepOutput


class Clock:
    """The time of the host and of its device. It passes while the host sleeps: code takes none."""

    def __init__(self):
        self.now = 1000.0

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(AsyncDevice, "clock", Clock())
    clock = AsyncDevice.clock
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(reader, "time", SimpleNamespace(time=lambda: clock.now, monotonic=lambda: clock.now))
    return clock


class AsyncDevice:
    """A queue whose work takes time; an event is reached when all work before it is done."""

    clock = None

    def __init__(self):
        self.busy_until = self.clock.now
        self.waited = 0
        self.ahead = 0

    def submit(self, seconds):
        self.busy_until = max(self.busy_until, self.clock.now) + seconds
        self.ahead = max(self.ahead, round((self.busy_until - self.clock.now) / seconds))
        return self.busy_until

    def event(self):
        return Event(self.busy_until)

    def synchronize(self):
        self.waited += 1
        self.clock.sleep(max(0.0, self.busy_until - self.clock.now))


class Event:
    def __init__(self, at):
        self.at = at

    def ready(self):
        return AsyncDevice.clock.now >= self.at

    def seconds_since(self, earlier):
        return self.at - earlier.at


class Later:
    """A loss that must not be read before it is there."""

    def __init__(self, at, value):
        self.at, self.value = at, value

    def ready(self):
        return AsyncDevice.clock.now >= self.at

    def __float__(self):
        assert self.ready(), "the loop blocked on a loss"
        return self.value


class AsyncTrainer:
    def __init__(self, device, losses, seconds=0.004):
        self.device, self.losses, self.seconds, self.step = device, losses, seconds, 0

    def train_step(self):
        at = self.device.submit(self.seconds)
        self.step += 1
        return StepOutput(loss=Later(at, self.losses[self.step - 1]), tokens=10, grad_norm=None)


def run_loop(tmp_path, trainer, device, steps, warmup):
    with Recorder(tmp_path / "r.jsonl") as records:
        window = MeasuredLoop(trainer, device, records, 3).run(steps, warmup, lambda phase, moment: None)
    return window, RecordFile(tmp_path / "r.jsonl").new()


@pytest.mark.parametrize("warmup", [0, 5])
def test_step_times_come_from_the_device_and_losses_when_they_have_arrived(tmp_path, warmup):
    device = AsyncDevice()
    window, records = run_loop(tmp_path, AsyncTrainer(device, [float(n) for n in range(30)]), device, 30, warmup)
    assert [one.step for one in records] == list(range(1, 31))
    assert [one.loss for one in records] == [float(n) for n in range(30)]
    assert [one.measured for one in records] == [False] * warmup + [True] * (30 - warmup)
    assert all(one.step_seconds == pytest.approx(0.004) for one in records[6:])
    assert {one.rank for one in records} == {3}
    assert (window.steps, window.tokens) == (30 - warmup, 300 - 10 * warmup)
    assert window.seconds == pytest.approx((30 - warmup) * 0.004)


def test_the_host_waits_for_the_device_at_the_two_edges_only(tmp_path):
    device = AsyncDevice()
    run_loop(tmp_path, AsyncTrainer(device, [1.0] * 40), device, 40, 5)
    assert device.waited == 2
    assert 2 <= device.ahead <= MAX_STEPS_AHEAD + 1


@pytest.mark.parametrize(("loss", "name"), [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")])
def test_a_loss_that_is_no_number_is_recorded_and_ends_the_loop(tmp_path, loss, name):
    device = AsyncDevice()
    trainer = AsyncTrainer(device, [1.0, 2.0, loss, *[1.0] * 100])
    with pytest.raises(NonfiniteLoss, match=f"the loss of step 3 is {name}"):
        run_loop(tmp_path, trainer, device, 100, 0)
    last = RecordFile(tmp_path / "r.jsonl").new()[-1]
    assert (last.step, last.loss, last.nonfinite) == (3, None, name)
    assert trainer.step < 3 + MAX_STEPS_AHEAD + 2


def test_tokens_of_skipped_steps_do_not_count_and_their_time_does(tmp_path):
    """Deferred, as a GPU's loss scaler tells it, and at once; the third way is not to tell."""

    class Skipping(AsyncTrainer):
        def train_step(self):
            output = super().train_step()
            found = {1: True, 7: Later(output.loss.at, 1.0), 8: Later(output.loss.at, 0.0), 9: False, 10: True}
            return replace(output, skipped=found.get(self.step))

    device = AsyncDevice()
    window, records = run_loop(tmp_path, Skipping(device, [1.0] * 20), device, 20, 5)
    assert (window.steps, window.tokens) == (15, 13 * 10)
    assert [one.skipped for one in records[6:10]] == [True, False, False, True]
    assert (records[0].skipped, records[1].skipped) == (True, None)
    assert all(one.tokens == 10 for one in records)
    assert window.seconds == pytest.approx(15 * 0.004)
    assert device.waited == 2


class Scalar32:
    """As a NumPy scalar or a tensor: a number, but no float and nothing that tells whether it has arrived."""

    def __float__(self):
        return 1.0


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "expected a StepOutput as answer of train_step() in step 1, found None"),
        (6.9, "expected a StepOutput as answer of train_step() in step 1, found builtins.float"),
        ({"loss": Scalar32()}, f" a DeferredScalar or None as loss of step 1, found {__name__}.Scalar32"),
        ({"grad_norm": Scalar32()}, f"a DeferredScalar or None as grad_norm of step 1, found {__name__}.Scalar32"),
        ({"skipped": "no"}, "expected true, false, a DeferredScalar or None as skipped of step 1"),
        *(({"tokens": tokens}, f" as tokens of step 1, found {tokens!r}") for tokens in (-1, 1.5, "x")),
    ],
)  # fmt: skip
def test_what_is_no_answer_of_a_step_ends_the_loop_in_one_line(tmp_path, answer, told):
    class Odd(AsyncTrainer):
        def train_step(self):
            return replace(super().train_step(), **answer) if isinstance(answer, dict) else answer

    device = AsyncDevice()
    with pytest.raises(PluginError) as caught:
        run_loop(tmp_path, Odd(device, [1.0]), device, 1, 0)
    assert str(caught.value).startswith("the trainer of llmperf_build_trainer: expected ")
    assert told in str(caught.value)


class Instant:
    """Steps that take no time, so that what is left is the loop itself."""

    output = StepOutput(loss=1.5, tokens=10, grad_norm=0.5)

    def train_step(self):
        return self.output

    def event(self):
        return Event(0.0)

    def synchronize(self):
        pass


def test_the_loop_costs_less_than_a_hundredth_of_a_step_of_ten_milliseconds(tmp_path):
    instant, steps = Instant(), 3000
    costs = []
    for attempt in range(3):
        with Recorder(tmp_path / f"{attempt}.jsonl") as records:
            begin = time.process_time()
            MeasuredLoop(instant, instant, records, 0).run(steps, 0, lambda phase, moment: None)
            costs.append((time.process_time() - begin) / steps)
    assert min(costs) < 100e-6


class WaitingTrainer(AsyncTrainer):
    """Says that it waits for other ranks for half a millisecond in each step."""

    def communication_seconds(self):
        return 0.0005 * self.step


def test_waits_for_communication_are_those_of_the_window_where_the_trainer_tells(tmp_path):
    device = AsyncDevice()
    trainer = WaitingTrainer(device, [1.0] * 30)
    assert run_loop(tmp_path, trainer, device, 30, 10)[0].communication_seconds == pytest.approx(20 * 0.0005)
    assert run_loop(tmp_path, AsyncTrainer(device, [1.0] * 8), device, 8, 2)[0].communication_seconds is None
    trainer = WaitingTrainer(device, [1.0] * 8)
    trainer.communication_seconds = lambda: None
    assert run_loop(tmp_path, trainer, device, 8, 2)[0].communication_seconds is None


@pytest.mark.parametrize("answer", [-1.0, float("nan"), "long"])
def test_waits_that_are_no_seconds_name_the_trainer(tmp_path, answer):
    device = AsyncDevice()
    trainer = WaitingTrainer(device, [1.0] * 8)
    trainer.communication_seconds = lambda: answer
    with pytest.raises(PluginError, match=r"expected seconds of at least 0 or None as communication_seconds\(\)"):
        run_loop(tmp_path, trainer, device, 8, 2)

"""The measured peak: measured once, kept, and measured again if the file is bad."""

import itertools
import json
import time
from functools import partial

import pytest
from llmperf import cache_dir
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.types import PeakFlops
from llmperf_cpu import gemm_peak, host, peak


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A cache of its own, and a measurement that takes no time; lists what was measured."""
    asked: list[str] = []

    def measure(key, seconds=None):
        asked.append(str(key["dtype"]))
        return {"flops_per_second": 2e11, "size": 2048, "core_share": 1.0, "date": "2026-01-01", "key": key}

    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(peak, "_measure", measure)
    monkeypatch.setattr(peak, "_library", lambda dtype: "torch 9.9" if dtype in ("fp32", "bf16") else None)
    return asked


def test_measured_once_for_each_dtype(measured):
    model = host.cpu_model()
    for dtype in ("fp32", "fp32", "bf16", "fp32"):
        answer = peak.measured_peak(model, dtype)
        assert isinstance(answer, PeakFlops)
        assert (answer.dtype, answer.flops_per_second, answer.confidence) == (dtype, 2e11, "measured")
        assert "2048 x 2048" in answer.source
    assert measured == ["fp32", "bf16"]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\0\1\2",
        b"[]",
        b'{"flops_per_second": 1e30',
        b"x" * 100_000,
        {"key": {"cpu": "another"}},
        {"core_share": 0.5},
        {"flops_per_second": 0.0},
    ],
)
def test_bad_cache_is_measured_again_and_mended(measured, bad):
    peak.measured_peak(host.cpu_model(), "fp32")
    (file,) = cache_dir("cpu-peak").iterdir()
    good = json.loads(file.read_bytes())
    file.write_bytes(bad if isinstance(bad, bytes) else json.dumps({**good, **bad}).encode())
    answer = peak.measured_peak(host.cpu_model(), "fp32")
    assert isinstance(answer, PeakFlops)
    assert answer.flops_per_second == 2e11
    assert measured == ["fp32", "fp32"]
    assert json.loads(file.read_bytes()) == good


def test_another_library_version_is_measured_again_and_an_unwritable_cache_gives_a_peak(
    measured, tmp_path, monkeypatch
):
    peak.measured_peak(host.cpu_model(), "fp32")
    monkeypatch.setattr(peak, "_library", lambda dtype: "torch 10.0")
    peak.measured_peak(host.cpu_model(), "fp32")
    assert measured == ["fp32", "fp32"]
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert peak.measured_peak(host.cpu_model(), "fp32") is not None


def test_unknown_is_none_and_so_is_a_failed_measurement(measured, tmp_path, monkeypatch):
    assert peak.measured_peak("Another CPU", "fp32") is None
    assert peak.measured_peak(host.cpu_model(), "fp16") is None
    assert measured == []
    monkeypatch.undo()
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(peak, "_library", lambda dtype: "no-such-library 1.0")
    assert peak.measured_peak(host.cpu_model(), "fp32") is None
    assert list(tmp_path.iterdir()) == []


class Clock:
    """Time that passes in products alone, in which this process does not compute."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def process_time(self):
        return 0.0

    def product(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(gemm_peak, "time", clock)
    return clock


def test_best_of_sizes_and_repeats(clock, monkeypatch):
    monkeypatch.setattr(host, "busy_seconds", lambda: None)
    repeats = {8: [0.001], 16: [0.001, 0.003, 0.002], 32: [0.02]}
    taken = {size: itertools.cycle(seconds) for size, seconds in repeats.items()}
    best = gemm_peak.best_flops(lambda size: lambda: clock.product(next(taken[size])), cores=2, sizes=(8, 16, 32))
    assert best.size == 16
    assert best.flops_per_second == pytest.approx(2 * 16**3 / 0.001)
    assert best.core_share < 0.5  # sleeping is what a host with other work looks like


def test_cores_that_the_library_leaves_idle_are_nobody_elses(clock, monkeypatch):
    for others, left in ((0.0, 1.0), (0.5, 0.5)):
        monkeypatch.setattr(host, "busy_seconds", partial(lambda share: share * 2 * clock.now, others))
        best = gemm_peak.best_flops(lambda size: lambda: clock.product(0.001), cores=2, sizes=(8,))
        assert best.core_share == pytest.approx(left)


def test_busy_seconds_of_this_host_go_up_with_work():
    before = host.busy_seconds()
    if before is None:
        pytest.skip("this host does not show the time of its cores")
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    after = host.busy_seconds()
    assert after - before >= 0.05


def test_a_larger_peak_after_a_run_is_kept(measured, monkeypatch):
    model, first = host.cpu_model(), peak._measure
    before = peak.measured_peak(model, "fp32")
    assert isinstance(before, PeakFlops)
    assert "before the run" in before.source
    for factor, kept in ((0.8, 2e11), (1.3, 2.6e11)):
        monkeypatch.setattr(
            peak,
            "_measure",
            lambda key, seconds=None, factor=factor: {
                **first(key),
                "flops_per_second": factor * 2e11,
                "core_share": 0.5,
            },
        )
        after = peak.peak_now(model, "fp32")
        assert after.flops_per_second == factor * 2e11
        assert "after the run" in after.source
        later = peak.measured_peak(model, "fp32")  # the host is busy, and an earlier figure serves
        assert isinstance(later, PeakFlops)
        assert later.flops_per_second == kept
        assert "measured on this host earlier, when it was idle" in later.source


def test_a_busy_host_has_no_peak_and_none_is_kept(measured, monkeypatch):
    quiet = peak._measure
    shares = itertools.cycle([0.2, 0.28, 0.1])
    monkeypatch.setattr(peak, "_measure", lambda key: {**quiet(key), "core_share": next(shares)})
    message = "other processes used 72 % of the cores while the peak was timed; run again when the machine is idle"
    for _ in range(2):
        assert peak.measured_peak(host.cpu_model(), "fp32") == message
    assert measured == 2 * peak.TRIES * ["fp32"]
    assert not cache_dir("cpu-peak").exists()
    plan = ready(plan_run(Selection("default", framework="pytorch"), Site(vendor="cpu", devices=1))).plan
    assert (plan.peak, plan.peak_problem) == (None, message)
    shares = iter([0.5, 0.95])  # a quiet moment is waited for
    answer = peak.measured_peak(host.cpu_model(), "fp32")
    assert answer.confidence == "measured"


@pytest.mark.slow
def test_real_measurement_is_plausible(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path))
    first = peak.measured_peak(host.cpu_model(), "fp32")
    if isinstance(first, str):
        pytest.skip(first)
    assert 1e9 < first.flops_per_second < 1e14 * host.usable_cores()
    monkeypatch.setattr(peak, "_measure", lambda key: pytest.fail("it was kept"))
    kept = peak.measured_peak(host.cpu_model(), "fp32")
    assert isinstance(kept, PeakFlops)
    assert kept.flops_per_second == first.flops_per_second
    assert "measured on this host earlier" in kept.source

"""What the readings of a node's host and devices add up to over the measured window."""

import pytest
from llmperf.runfolder.readings import NodeReadings
from llmperf.types import DeviceSample, MemorySample
from llmperf.types.hosts import BusyProgram
from llmperf.types.records import HostSample


def reading(at, clock=None, slowed=(), **host):
    device = DeviceSample(
        index=0, memory_used_bytes=None, memory_total_bytes=None, clock_hertz=clock, throttle_reasons=slowed
    )
    known = {"cores": 2, "busy_seconds": 0.0, "own_seconds": 0.0} | host
    return MemorySample(at=at, monotonic=at, query_seconds=0.0, devices=(device,), host=HostSample(**known))


def read(samples, span=(100.0, 110.0)):
    readings = NodeReadings(span)
    for sample in samples:
        readings.add(sample)
    return readings


def test_programs_of_others_have_their_share_of_the_cores_in_the_window():
    samples = [
        reading(98.0, programs={"before": 100.0}),
        reading(100.0, programs={"before": 2.0}),
        reading(105.0, busy_seconds=9.0, own_seconds=2.0, programs={"cc1plus": 5.0, "make": 1.5}),
        reading(110.0, busy_seconds=13.0, own_seconds=2.0, programs={"cc1plus": 3.0, "tiny": 0.1}),
        reading(112.0, busy_seconds=17.0, own_seconds=2.0, programs={"after": 4.0}),
    ]
    load = read(samples).load
    assert load.share == pytest.approx((13 - 2) / 20)
    assert load.most_share == pytest.approx((9 - 2) / 10)
    assert load.programs == (BusyProgram(name="cc1plus", cpu_share=0.4), BusyProgram(name="make", cpu_share=0.075))


def test_memory_pressure_and_swapping_are_those_of_the_window():
    counters = ((90, 0, 1, 0), (100, 5, 9, 7), (105, 5, 4, 7), (110, 8, 6, 4096), (120, 9, 2, 9999))
    samples = [
        reading(at, stalled_seconds={"memory": stalled}, memory_available_bytes=free, swapped_bytes=swapped)
        for at, stalled, free, swapped in counters
    ]
    load = read(samples).load
    assert load.pressure == {"memory": 0.3}
    assert load.most_memory_pressure == 0.6
    assert load.least_memory_available_bytes == 4
    assert load.swapped_bytes == 4089


def test_throttling_and_clocks_are_listed_by_tenth():
    samples = [reading(100.0 + second / 2, 2e9 if second < 10 else 1.5e9, ("heat",) if second > 14 else ())
               for second in range(21) if second not in (4, 5)]  # fmt: skip
    readings = read(samples)
    assert readings.throttling_over_time == {"heat": (0, 0, None, 0, 0, 0, 0, 0.5, 1, 1)}
    assert readings.clock_over_time == (2e9, 2e9, None, 2e9, 2e9, *[1.5e9] * 5)


def test_a_host_that_shows_nothing_has_no_conditions():
    readings = read([MemorySample(at=at, monotonic=at, query_seconds=0.0, devices=()) for at in (101.0, 105.0)])
    assert (readings.load.share, readings.load.pressure, readings.load.swapped_bytes) == (None, {}, None)
    assert readings.throttling_over_time == {}
    assert readings.clock_over_time == ()

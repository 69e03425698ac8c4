"""Which node a screening names, from figures of healthy and sick clusters."""

from fnmatch import fnmatch

import pytest
from llmperf_screening.check import _relative, shown
from llmperf_screening.screen import Screened, rounds
from llmperf_screening.stages import Contact, Figure
from llmperf_screening.verdict import Verdict, verdict


def screened(names: str, **changes) -> Screened:
    """A screening of healthy nodes; `rate` gives the transfers from a node to another in B/s."""
    hosts = tuple(names.split())
    ranks = range(len(hosts))
    speed = changes.pop("speed", {})
    rate = changes.pop("rate", lambda sender, receiver: 1e9)
    latency = changes.pop("latency", lambda node, peer: 1e-4)
    closed = changes.pop("closed", {})
    pairs = [pair for turn in rounds(ranks) for pair in turn]
    figures = tuple(
        (Figure(check="matrix product", unit="FLOP/s", value=1e12 * speed.get(hosts[rank], 1.0)),) for rank in ranks
    )
    contacts = tuple(
        tuple(
            Contact(peer=peer, problem=closed.get((hosts[rank], hosts[peer])),
                    latency_seconds=latency(hosts[rank], hosts[peer]))
            for peer in ranks if peer != rank
        )
        for rank in ranks
    )  # fmt: skip
    transfers = tuple(
        tuple(
            Contact(peer=second, path_mtu=1500,
                    sent_bytes_per_second=rate(hosts[first], hosts[second]),
                    received_bytes_per_second=rate(hosts[second], hosts[first]))
            for first, second in pairs if first == rank and (hosts[first], hosts[second]) not in closed
        )
        for rank in ranks
    )  # fmt: skip
    known = {
        "figures": figures,
        "contacts": contacts,
        "transfers": transfers,
        "pairs": (),
        "problems": (),
        "skipped": (),
    }
    return Screened(hosts=hosts, seconds=3.0, **{**known, **changes})


def judged(names: str, **changes) -> Verdict:
    return verdict(screened(names, **changes))


def test_nodes_that_are_alike_are_healthy():
    for names in ("a b", "a b c", "a b c d e"):
        found = judged(names, speed={"a": 0.9}, rate=lambda sender, receiver: 8e8 if sender == "b" else 1e9)
        assert (found.slow, found.unreachable, found.sick) == ((), (), False)


OTHERS = "slower than the median of the others"
CONNECTIONS = "transfers are 90 % slower than the median of all connections"
NO_DATA = "connections open, but no data arrives"
MTU = "large packets seem to be lost: check that the MTU of both interfaces is that of all switches between them"
ONE_SLOW_DEVICE = tuple(
    tuple(Figure(check="matrix product", unit="FLOP/s", device=device, value=7e14 if (node, device) == (1, 2) else 9e14)
          for device in range(4))
    for node in range(2)
)  # fmt: skip


def only(value, *pairs):
    """Transfers at this rate from one node to another, such as `ab` or, to any, `a*`, and at a usual one elsewhere."""
    return lambda sender, receiver: value if any(fnmatch(sender + receiver, pair) for pair in pairs) else 1e9


@pytest.mark.parametrize(
    ("names", "changes", "slow", "unreachable"),
    [
        ("a b c", {"speed": {"b": 0.8}}, [f"node b: matrix product is 20 % {OTHERS}"], []),
        ("a b", {"speed": {"b": 0.5}}, [f"node b: matrix product is 50 % {OTHERS}"], []),
        ("a b", {"figures": ONE_SLOW_DEVICE}, [f"node b: matrix product of device 2 is 22 % {OTHERS}"], []),
        # the partners of a slow way out are not named
        ("a b c", {"rate": only(1e7, "b*")}, [f"node b: sending is 99 % {OTHERS}"], []),
        ("a b", {"rate": only(1e7, "b*")}, ["b to a: transfers are 99 % slower than the other direction"], []),
        ("a b c d", {"rate": only(1e8, "bd", "db")}, [f"b to d: {CONNECTIONS}", f"d to b: {CONNECTIONS}"], []),
        ("a b c", {"latency": lambda *pair: 4e-2 if "c" in pair else 1e-4},
         ["node c: latency of 40.00 ms, 0.10 ms on other nodes"], []),
        ("a b c", {"closed": {("a", "c"): "timed out", ("b", "c"): "timed out"}}, [],
         ["node c: connections from a, b fail: timed out; its ports are closed to other nodes"]),
        ("a b c d", {"closed": {("a", "c"): "no route to host"}}, [],
         ["node c: connections from a fail: no route to host"]),
        ("a b", {"rate": only(0.0, "**")}, [], [f"a and b: {NO_DATA}; {MTU}"]),
        ("a b", {"rate": only(0.0, "b*")}, [], [f"a and b: {NO_DATA} to a; {MTU}"]),
        ("a b c d", {"rate": only(0.0, "c*", "*c")}, [], [f"c and a, b, d: {NO_DATA}; {MTU}"]),
    ],
)  # fmt: skip
def test_the_node_at_fault_is_named_once_and_no_other(names, changes, slow, unreachable):
    found = judged(names, **changes)
    assert (sorted(found.slow), list(found.unreachable), found.sick) == (slow, unreachable, True)


def test_a_check_of_two_nodes_whose_data_does_not_arrive_is_no_missing_figure():
    late = Figure(check="all-reduce", unit="B/s", value=None, problem="no data for 20 s", timed_out=True)
    found = judged("a b", pairs=(((0, 1), (late,)),))
    assert found.unreachable == (f"a and b: all-reduce timed out: no data for 20 s; {MTU}",)
    assert found.not_measured == ()


def test_what_could_not_be_measured_is_listed():
    figures = (
        (Figure(check="matrix product", unit="FLOP/s", device=0, value=None, problem="RuntimeError: gone"),),
        (Figure(check="matrix product", unit="FLOP/s", device=0, value=1e12),),
    )
    found = judged("a b", figures=figures, problems=((1, "the process that measures ended with exit status 1"),))
    assert found.not_measured == ("node a: matrix product of device 0: RuntimeError: gone",)
    assert found.unreachable == ("node b: the process that measures ended with exit status 1",)


def test_every_node_meets_every_other_once_and_nobody_twice_at_a_time():
    for count in range(2, 17):
        turns = rounds(range(count))
        assert len(turns) == count - 1 + count % 2
        assert sorted(pair for turn in turns for pair in turn) == [
            (a, b) for a in range(count) for b in range(a + 1, count)
        ]
    for count in (17, 64, 1023):
        turns = rounds(range(count))
        assert len(turns) == 2 + count % 2
        assert len({pair for turn in turns for pair in turn}) == count
    for count in (2, 5, 16, 17, 64):
        for turn in rounds(range(count)):
            nodes = [node for pair in turn for node in pair]
            assert len(nodes) == len(set(nodes))


@pytest.mark.parametrize(
    ("failed", "line"), [(False, "no node stands out"), (True, "none of the other nodes stands out")]
)
def test_a_failed_node_is_not_among_those_of_which_none_stands_out(failed, line):
    found = Verdict(measured=(), slow=(), unreachable=(), not_measured=(), path_mtu=(), seconds=3.0)
    assert list(shown(found, failed))[-1].startswith(line)


@pytest.mark.parametrize(("value", "text"), [(-0.12, "-12 %"), (0.5, "+50 %"), (531.4, "532 times")])
def test_large_differences_are_factors(value, text):
    assert _relative(value) == text
